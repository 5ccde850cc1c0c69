"""A policy by which an API server itself refuses the writes of a stale leader, whatever program they come from.

What it can compare: the token that a request says as its field manager (``tenure:7``), the one that the object has in its
annotation ``tenure/token``, and the one that the object would have afterwards. A merge patch that does not mention the
annotation inherits it, so the annotation alone proves nothing of who asks; hence the field manager. A request to delete has
none, so an object is deleted only after a write under its token has marked it, by the annotation ``tenure/delete``.

Given an election, the token of the request is compared with the count of its Lease as well. That covers what has no older
object, but an API server's memory of the Lease may be old: it narrows the gap, and promises nothing.
"""

import re
from typing import Final

from tenure.clients.kubernetes.resources import Resource, resource_of
from tenure.errors import ConfigError

_NAME_MAX: Final = 253
_LABEL: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_NAME: Final = re.compile(rf"{_LABEL}(\.{_LABEL})*")
# kubectl asks the API server what is meant by cm, configmap or deployments. We ask nobody, so what is in these groups must be
# spelled out: a policy for "configmap" is taken by every API server, and fences nothing. The empty group is the core's.
_PLURALS: Final = {
    "": [
        "configmaps",
        "endpoints",
        "events",
        "limitranges",
        "persistentvolumeclaims",
        "pods",
        "podtemplates",
        "replicationcontrollers",
        "resourcequotas",
        "secrets",
        "serviceaccounts",
        "services",
    ],
    "apps": ["controllerrevisions", "daemonsets", "deployments", "replicasets", "statefulsets"],
    "autoscaling": ["horizontalpodautoscalers"],
    "batch": ["cronjobs", "jobs"],
    "coordination.k8s.io": ["leases"],
    "discovery.k8s.io": ["endpointslices"],
    "networking.k8s.io": ["ingresses", "networkpolicies"],
    "policy": ["poddisruptionbudgets"],
    "rbac.authorization.k8s.io": ["rolebindings", "roles"],
}
# Whoever keeps the cluster running. Controllers write status, and collect garbage, under no token.
_CLUSTER: Final = """\
      !(request.userInfo.username.startsWith("system:serviceaccount:kube-system:")
      || request.userInfo.username.startsWith("system:node:")
      || request.userInfo.username in ["system:kube-controller-manager", "system:kube-scheduler", "system:apiserver"])"""
# Not resourceNames: a request to delete a collection names no object, so that would not hold for it.
_ONE: Final = """\
  - name: it-is-this-one
    expression: >-
      (has(request.name) && request.name == "{name}")
      || (object != null && has(object.metadata.name) && object.metadata.name == "{name}")
      || (oldObject != null && has(oldObject.metadata.name) && oldObject.metadata.name == "{name}")
"""
_ANY: Final = """\
  - name: somebody-leads-it
    expression: >-
      (object != null && has(object.metadata.annotations) && "tenure/token" in object.metadata.annotations)
      || (oldObject != null && has(oldObject.metadata.annotations) && "tenure/token" in oldObject.metadata.annotations)
      || (has(request.subResource) && request.kind.group != request.resource.group)
"""
_POLICY: Final = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata:
  name: {name}
spec:
  failurePolicy: Fail
{param_kind}  matchConstraints:
    resourceRules:
    - apiGroups: ["{group}"]
      apiVersions: ["*"]
      resources: ["{plural}", "{plural}/*"]
      operations: [CREATE, UPDATE, DELETE]
  matchConditions:
  - name: not-the-cluster-itself
    expression: >-
{cluster}
{which}  variables:
  - name: said
    expression: >-
      has(request.options.fieldManager) && request.options.fieldManager.matches("^tenure:[1-9][0-9]{{0,18}}$")
      ? int(request.options.fieldManager.substring(7)) : 0
  - name: before
    expression: >-
      oldObject != null && has(oldObject.metadata.annotations) && "tenure/token" in oldObject.metadata.annotations
      ? int(oldObject.metadata.annotations["tenure/token"]) : 0
  - name: after
    expression: >-
      object != null && has(object.metadata.annotations) && "tenure/token" in object.metadata.annotations
      ? int(object.metadata.annotations["tenure/token"]) : 0
  - name: part
    expression: 'has(request.subResource) && request.subResource != ""'
  - name: deletes
    expression: 'request.operation == "DELETE"'
  validations:
  - expression: "variables.deletes || variables.said > 0"
    message: "tenure: say the token of your tenure as the field manager, as in --field-manager=tenure:7"
  - expression: "variables.deletes || variables.said >= variables.before"
    messageExpression: '"tenure: stale token " + string(variables.said) + ", and this object has seen " + string(variables.before)'
  - expression: "variables.deletes || variables.part || variables.after == variables.said"
    messageExpression: '"tenure: the annotation tenure/token must be " + string(variables.said) + ", as the field manager says"'
{blind}  - expression: >-
      !variables.deletes || (has(oldObject.metadata.annotations) && "tenure/delete" in oldObject.metadata.annotations
      && oldObject.metadata.annotations["tenure/delete"] == string(variables.before))
    messageExpression: '"tenure: mark it before you delete it, with the annotation tenure/delete: " + string(variables.before)'
{lease}---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: {name}
spec:
  policyName: {name}
  validationActions: [Deny]
{param_ref}  matchResources:
    namespaceSelector:
      matchLabels:
        kubernetes.io/metadata.name: "{namespace}"
"""
# A Scale is no Deployment: it shows no annotations, so nobody can tell whether the object behind it is led, and by whom.
_BLIND: Final = """\
  - expression: "!variables.part || variables.before > 0"
    message: "tenure: this subresource shows no token to compare with, so write the object itself"
"""
_PARAM_KIND: Final = """\
  paramKind:
    apiVersion: coordination.k8s.io/v1
    kind: Lease
"""
_PARAM_REF: Final = """\
  paramRef:
    name: "{lease}"
    namespace: "{namespace}"
    parameterNotFoundAction: Deny
"""
_LEASE: Final = """\
  - expression: "variables.deletes || !has(params.spec.leaseTransitions) || variables.said >= params.spec.leaseTransitions"
    messageExpression: '"tenure: stale token " + string(variables.said) + ", and the election is at " + string(params.spec.leaseTransitions)'
"""


def fenceable(text: str) -> Resource:
    """Return the resource that ``text`` names in full, or one object of it. Raises ConfigError if there can be none such."""
    found = resource_of(text)
    parts = (found.plural, found.group, found.name)
    if any(len(part) > _NAME_MAX or not _NAME.fullmatch(part) for part in parts if part):
        rule = f"must have up to {_NAME_MAX} small letters, digits, dashes and dots, with a letter or a digit at both ends and beside dots"
        raise ConfigError("resource", text, rule)
    if found.plural in _PLURALS.get(found.group, [found.plural]):
        return found
    meant = [
        f"{plural}.{group}" if group else plural
        for group, plurals in _PLURALS.items()
        for plural in plurals
        if plural in {found.plural, f"{found.plural}s", f"{found.plural}es"}
    ]
    rule = "must be a plural with its group, such as deployments.apps/web, or one that namespaces have in the core, such as configmaps/books"
    raise ConfigError("resource", text, rule + (f": did you mean {' or '.join(meant)}?" if meant else ""))


def policy(resource: Resource, namespace: str, lease: str | None = None) -> str:
    """Return a policy and its binding for a resource of a namespace, as ``kubectl apply -f -`` takes them.

    A resource with a name is fenced from its creation on; without one, those of its objects are that carry a token.
    ``lease`` is that of the election, if the count in it is to be compared as well.
    """
    called = f"{resource.plural}.{resource.group}" if resource.group else resource.plural
    name = f"tenure.{namespace}.{called}" + (f".{resource.name}" if resource.name else "")
    if len(name) > _NAME_MAX:
        rule = f"makes a policy with a name of {len(name)} characters, and {_NAME_MAX} are allowed: fence {called} without a name"
        raise ConfigError("resource", f"{called}/{resource.name}", rule)
    return _POLICY.format(
        name=name,
        group=resource.group,
        plural=resource.plural,
        namespace=namespace,
        cluster=_CLUSTER,
        which=_ONE.format(name=resource.name) if resource.name else _ANY,
        param_kind=_PARAM_KIND if lease else "",
        param_ref=_PARAM_REF.format(lease=lease, namespace=namespace) if lease else "",
        lease=_LEASE if lease else "",
        blind="" if lease else _BLIND,
    )
