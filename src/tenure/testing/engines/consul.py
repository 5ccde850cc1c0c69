"""Clusters of Consul."""

import json
import uuid
from collections.abc import Sequence

from tenure.errors import ConfigError
from tenure.testing.engines.asking import ask, run_tool
from tenure.testing.engines.binaries import Binary
from tenure.testing.engines.certificates import Tls
from tenure.testing.engines.cluster import Cluster, EngineFailed, Node, address
from tenure.testing.engines.ports import claim_ports
from tenure.testing.engines.processes import wait_for

# A server that has no leader holds a request back for seven seconds, in case there will be one.
_ASK_S = 10
_HEARD_S = 30  # of a token by all servers, which takes milliseconds
_MEET_S = 60  # in which two datacentres find each other, which takes a second or two
_OK, _FORBIDDEN = 200, 403
_PASSING = '"CheckID":"serfHealth","Name":"Serf Health Status","Status":"passing"'


class ConsulCluster(Cluster):
    """``size`` servers of Consul, with ``options`` behind the settings on the command line, such as ``-hcl=…``.

    A session lives for 10 s at least, as shipped; ``session_ttl_min_s`` is for tests that cannot wait for that. With
    ``acl`` nobody may do anything without a token: ``management_token`` may do everything, and ``token`` makes more of them.

    ``agent_count`` client agents, such as every machine with services has one, are in ``agents``: they decide nothing and pass
    requests on. With ``datacentre`` the servers speak to those of other ones: ``beside`` is a cluster in one of these.
    """

    engine = "consul"
    ports_per_node = 3

    def __init__(  # noqa: PLR0913  (each by its name)
        self,
        size: int = 3,
        *,
        binary: Binary | None = None,
        isolated: bool = False,
        tls: Tls | None = None,
        host: str = "127.0.0.1",
        acl: bool = False,
        session_ttl_min_s: int | None = None,
        agent_count: int = 0,
        datacentre: str = "",
        beside: "ConsulCluster | None" = None,
        options: Sequence[str] = (),
    ) -> None:
        super().__init__(size, binary, host, isolated, options)
        self.datacentre: str = datacentre
        if isolated and (agent_count or datacentre):
            raise ConfigError("isolated", isolated, "only the servers of one cluster can have networks of their own")
        if beside is not None and not (datacentre and beside.datacentre):
            raise ConfigError("datacentre", datacentre, "clusters that speak to each other need one each")
        self.agent_count, self.beside = agent_count, beside
        self.agents: list[Node] = []
        if datacentre:
            self.ports_per_node += 1
        self.tls, self.acl, self.session_ttl_min_s = tls, acl, session_ttl_min_s
        self.scheme = "consul" if tls is None else "consuls"
        self.management_token = str(uuid.uuid4()) if acl else ""
        self._accessors: dict[str, str] = {}  # by token: the name under which it can be deleted

    def environment(self, node: Node | None = None) -> dict[str, str]:
        """What Consul's own programs read to find this cluster, by one node of it, and to be allowed everything."""
        settings = {"CONSUL_HTTP_ADDR": f"{self._web}://{(node or self.nodes[0]).endpoint}"}
        if self.acl:
            settings["CONSUL_HTTP_TOKEN"] = self.management_token
        if self.tls is not None:
            settings |= {
                "CONSUL_CACERT": str(self.tls.ca),
                "CONSUL_CLIENT_CERT": str(self.tls.client.certificate),
                "CONSUL_CLIENT_KEY": str(self.tls.client.key),
            }
        return settings

    def ctl(self, *arguments: str, node: Node | None = None, stdin: str = "") -> str:
        """Run ``consul``, the command line, on one node, and return what it prints; raises EngineFailed."""
        return run_tool([self.binary.tool, *arguments], f"consul {' '.join(arguments)}", self.environment(node), stdin)

    def api(self, method: str, path: str, body: object = None, *, node: Node | None = None) -> str:
        """What one node answers to a request such as ``PUT /v1/session/destroy/…``; raises EngineFailed."""
        status, answer = self._ask(node or self.nodes[0], path, method, None if body is None else json.dumps(body))
        if status != _OK:
            raise EngineFailed(f"{method} {path}", f"was answered with {status or 'nothing'}", answer.strip())
        return answer

    def token(self, rules: str) -> str:
        """Make a token that is allowed what ``rules`` say, such as ``key_prefix "" { policy = "read" }``."""
        policy = {"Name": f"made-{uuid.uuid4()}", "Rules": rules}
        self.api("PUT", "/v1/acl/policy", policy)
        made = json.loads(self.api("PUT", "/v1/acl/token", {"Policies": [{"Name": policy["Name"]}]}))
        secret: str = made["SecretID"]
        self._accessors[secret] = made["AccessorID"]
        self._wait_until_heard_of(secret, _OK)
        return secret

    def revoke(self, token: str) -> None:
        """Delete a token that ``token`` has made; on return no server takes it."""
        self.api("DELETE", f"/v1/acl/token/{self._accessors.pop(token)}")
        self._wait_until_heard_of(token, _FORBIDDEN)

    def mend(self) -> None:
        super().mend()
        for agent in self.agents:
            if agent.paused:
                agent.resume()
            if not agent.running:
                agent.launch()
        self.wait_until_serving(self.agents)

    def command(self, node: Node) -> list[str]:
        inside = self.network.enter(self.nodes.index(node)) if self.network is not None else []
        _, server_port, gossip_port, *_ = node.ports
        return [
            *inside,
            self.binary.program,
            "agent",
            *(self._as_server(node) if node in self.nodes else ()),
            f"-node={self._name(node)}",
            f"-data-dir={node.folder / 'data'}",
            f"-bind={node.host}",
            f"-client={node.host}",
            f"-server-port={server_port}",
            f"-serf-lan-port={gossip_port}",
            *((f"-datacenter={self.datacentre}",) if self.datacentre else ()),
            *(f"-{other}-port=-1" for other in ("dns", "grpc", "grpc-tls")),
            *(f"-retry-join={address(other.host, other.ports[2])}" for other in self.nodes if other is not node),
            "-retry-interval=1s",
            *(f"-hcl={setting}" for setting in self._settings(node)),
            *self.options,
        ]

    def serves(self, node: Node) -> bool:
        # A node that is not in the catalogue, or not known to be well, can have no session.
        _, answer = self._ask(node, f"/v1/health/node/{self._name(node)}?consistent")
        return _PASSING in answer

    def leads(self, node: Node) -> bool:
        _, answer = self._ask(node, "/v1/status/leader")
        return answer.strip() == f'"{address(node.host, node.ports[1])}"'

    def _start(self) -> None:
        super()._start()
        claims = claim_ports(self.ports_per_node * self.agent_count, self.host)
        for claim in claims:
            self._undo.callback(claim.release)
        for number in range(self.agent_count):
            first = number * self.ports_per_node
            ports = [claim.port for claim in claims[first : first + self.ports_per_node]]
            index = self.size + number
            agent = Node(self, index, self.host, ports, self.folder / f"n{index + 1}")
            self.agents.append(agent)
            self._undo.callback(agent.discard)
            agent.launch()
        self.wait_until_serving(self.agents)
        if self.beside is not None:
            self._wait_until_met(self.beside)

    def _name(self, node: Node) -> str:
        """What Consul knows a node by. No two have one name, wherever they are: one would be taken for the other."""
        return f"{self.datacentre}-{node.name}" if self.datacentre else node.name

    def _as_server(self, node: Node) -> list[str]:
        """What only servers are told: how many they are, and where those of another datacentre are."""
        others = [] if self.beside is None else self.beside.nodes
        return [
            "-server",
            f"-bootstrap-expect={self.size}",
            f"-serf-wan-port={node.ports[3] if self.datacentre else -1}",
            *(f"-retry-join-wan={address(other.host, other.ports[3])}" for other in others),
            "-retry-interval-wan=1s",
        ]

    def _wait_until_met(self, other: "ConsulCluster") -> None:
        """Each server finds those of the other datacentre by itself, and they find it."""
        both = {self.datacentre, other.datacentre}

        def all_met() -> bool:
            known = [
                cluster.api("GET", "/v1/catalog/datacenters", node=node)
                for cluster in (self, other)
                for node in (*cluster.nodes, *cluster.agents)
            ]
            return all(both <= set(json.loads(names)) for names in known)

        if not wait_for(all_met, _MEET_S):
            raise EngineFailed(self.engine, f"does not know {other.datacentre} after {_MEET_S} s", self.nodes[0].tail())

    @property
    def _web(self) -> str:
        return "http" if self.tls is None else "https"

    def _ask(
        self, node: Node, path: str, method: str = "GET", body: str | None = None, token: str | None = None
    ) -> tuple[int, str]:
        headers = {"X-Consul-Token": self.management_token if token is None else token}
        context = None if self.tls is None else self.tls.context()
        return ask(node, context, path, method=method, body=body, headers=headers, timeout_s=_ASK_S)

    def _wait_until_heard_of(self, token: str, status: int) -> None:
        """Each server judges a token by its own copy of the data, and followers have theirs a little later."""

        def all_heard() -> bool:
            nodes = [node for node in self.nodes if node.reachable]
            return all(self._ask(node, "/v1/acl/token/self", token=token)[0] == status for node in nodes)

        if not wait_for(all_heard, _HEARD_S):
            raise EngineFailed(self.engine, f"has not heard of a token after {_HEARD_S} s", self.nodes[0].tail())

    def _settings(self, node: Node) -> list[str]:
        settings = [
            f"ports {{ {self._web} = {node.ports[0]} }}",
            "disable_update_check = true",
            # As Consul advises for production: as shipped it takes five times as long to notice that a leader is gone.
            "performance { raft_multiplier = 1 }",
            # Or a server that was killed is no member any more, and killing a second one leaves no quorum.
            "autopilot { cleanup_dead_servers = false }",
        ]
        if self.session_ttl_min_s is not None:
            settings.append(f'session_ttl_min = "{self.session_ttl_min_s}s"')
        if self.tls is not None:
            server = self.tls.issue(f"{self.folder.name}-{node.name}", node.host)
            files = f'ca_file = "{self.tls.ca}" cert_file = "{server.certificate}" key_file = "{server.key}"'
            wanted = str(self.tls.clients_need_certificates).lower()
            settings += ["ports { http = -1 }", f"tls {{ https {{ {files} verify_incoming = {wanted} }} }}"]
        if self.acl:
            tokens = " ".join(f'{kind} = "{self.management_token}"' for kind in ("initial_management", "agent"))
            settings.append(f'acl {{ enabled = true default_policy = "deny" tokens {{ {tokens} }} }}')
        return settings
