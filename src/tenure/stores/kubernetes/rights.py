"""What a program needs to be allowed for its elections, and no more."""

from typing import Final

VERBS: Final = ("get", "list", "watch", "create", "update")
_GROUP: Final = "coordination.k8s.io"

_MANIFEST: Final = """\
# What elections in the namespace {namespace} need, and no more. Put your own service account where it says tenure.
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: tenure
  namespace: {namespace}
rules:
- apiGroups: [{group}]
  resources: [leases]
  verbs: [{verbs}]
# What documents need on top, which store.update and tenure config write: take the # away from these three lines.
#- apiGroups: [""]
#  resources: [configmaps]
#  verbs: [get, create, update]
# The namespace's uid is what fences are named by.
- apiGroups: [""]
  resources: [namespaces]
  resourceNames: [{namespace}]
  verbs: [get]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: tenure
  namespace: {namespace}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: tenure
subjects:
- kind: ServiceAccount
  name: tenure
  namespace: {namespace}
"""


def manifest(namespace: str) -> str:
    """Return a Role with these rights and a RoleBinding, as ``kubectl apply -f -`` takes them."""
    # In quotes, or YAML would read a namespace called 1, true, null or 0x1f back as something else.
    return _MANIFEST.format(namespace=f'"{namespace}"', group=_GROUP, verbs=", ".join(VERBS))


def review(namespace: str, verb: str) -> dict[str, object]:
    """Return the question whether we may do this to the Leases of a namespace."""
    asked = {"namespace": namespace, "verb": verb, "group": _GROUP, "resource": "leases"}
    return {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": asked},
    }
