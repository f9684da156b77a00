"""The fields of Cluster API's own kinds. Source: Cluster API 1.14's CRDs (v1beta2), as far as they say what is allowed."""

from __future__ import annotations

from kubehenge.lab.kube.schema import ANY, BOOLEAN, INT_OR_STRING, INTEGER, STRING, Schema, list_of, map_of, number, obj, text

NAME = text(least=1, most=253)
SHORT_NAME = text(least=1, most=63)
VERSION = text(least=1, most=256)
REPLICAS = INTEGER
SECONDS = number(least=0)
TIME = STRING

META = obj({"labels": map_of(STRING), "annotations": map_of(STRING)}, least=1)
REF = obj({"apiGroup!": NAME, "kind!": SHORT_NAME, "name!": NAME})
TEMPLATE_REF = obj({"apiVersion!": text(least=1, most=317), "kind!": SHORT_NAME, "name!": NAME})
SELECTOR = obj(
    {
        "matchLabels": map_of(STRING),
        "matchExpressions": list_of(obj({"key!": STRING, "operator!": STRING, "values": list_of(STRING)})),
    },
    atomic=True,
)
CONDITIONS = list_of(
    obj(
        {
            "type!": text(most=316),
            "status!": text(enum=("True", "False", "Unknown")),
            "reason!": text(least=1, most=1024, pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"),
            "message!": text(most=32768),
            "lastTransitionTime!": TIME,
            "observedGeneration": number(least=0),
        }
    ),
    keys=("type",),
)
ENDPOINT = obj({"host": text(least=1, most=512), "port": number(1, 65535)}, least=1)

_DELETION = {"nodeDrainTimeoutSeconds": SECONDS, "nodeVolumeDetachTimeoutSeconds": SECONDS, "nodeDeletionTimeoutSeconds": SECONDS}
_DELETION_ORDER = {"order": text(enum=("Random", "Newest", "Oldest"))}
_GATES = list_of(
    obj({"conditionType!": text(least=1, most=316), "polarity": text(enum=("Positive", "Negative"))}), keys=("conditionType",), least=1
)
_TAINTS = list_of(
    obj(
        {
            "key!": text(least=1, most=317),
            "value": SHORT_NAME,
            "effect!": text(enum=("NoSchedule", "PreferNoSchedule", "NoExecute")),
            "propagation!": text(enum=("Always", "OnInitialization")),
        }
    ),
    keys=("key", "effect"),
    least=1,
)
_UNHEALTHY = list_of(obj({"type!": text(least=1), "status!": text(least=1), "timeoutSeconds!": SECONDS}), least=1)
_CHECKS = obj(
    {"nodeStartupTimeoutSeconds": SECONDS, "unhealthyNodeConditions": _UNHEALTHY, "unhealthyMachineConditions": _UNHEALTHY}, least=1
)
_TRIGGER = obj({"unhealthyLessThanOrEqualTo": INT_OR_STRING, "unhealthyInRange": text(pattern=r"^\[[0-9]+-[0-9]+\]$")}, least=1)
_REMEDIATION = {"templateRef": TEMPLATE_REF, "triggerIf": _TRIGGER}
_WORKER_REMEDIATION = {**_REMEDIATION, "maxInFlight": INT_OR_STRING}
_STRATEGY = obj(
    {
        "type!": text(enum=("RollingUpdate", "OnDelete")),
        "rollingUpdate": obj({"maxSurge": INT_OR_STRING, "maxUnavailable": INT_OR_STRING}, least=1),
    },
    least=1,
)
_ROLLOUT = {"after": TIME}
_VARIABLES = list_of(obj({"name!": VERSION, "value!": ANY}), keys=("name",), least=1)
_OVERRIDES = obj({"overrides": _VARIABLES}, least=1)


def _health_check(remediation: dict[str, Schema], **more: Schema) -> Schema:
    return obj({"checks": _CHECKS, "remediation": obj(remediation, least=1), **more}, least=1)


_CONTROL_PLANE_TOPOLOGY = obj(
    {
        "replicas": REPLICAS,
        "metadata": META,
        "rollout": obj(_ROLLOUT, least=1),
        "deletion": obj(_DELETION, least=1),
        "healthCheck": _health_check(_REMEDIATION, enabled=BOOLEAN),
        "readinessGates": _GATES,
        "taints": _TAINTS,
        "variables": _OVERRIDES,
    },
    least=1,
)
_POOL_TOPOLOGY = {
    "class!": VERSION,
    "name!": SHORT_NAME,
    "replicas": REPLICAS,
    "metadata": META,
    "minReadySeconds": SECONDS,
    "taints": _TAINTS,
    "variables": _OVERRIDES,
}
_MACHINE_DEPLOYMENT_TOPOLOGY = obj(
    {
        **_POOL_TOPOLOGY,
        "failureDomain": VERSION,
        "deletion": obj({**_DELETION, **_DELETION_ORDER}, least=1),
        "rollout": obj({**_ROLLOUT, "strategy": _STRATEGY}, least=1),
        "healthCheck": _health_check(_WORKER_REMEDIATION, enabled=BOOLEAN),
        "readinessGates": _GATES,
    }
)
_MACHINE_POOL_TOPOLOGY = obj({**_POOL_TOPOLOGY, "failureDomains": list_of(VERSION, least=1), "deletion": obj(_DELETION, least=1)})
_TOPOLOGY = obj(
    {
        "classRef!": obj({"name!": NAME, "namespace": SHORT_NAME}),
        "version!": VERSION,
        "controlPlane": _CONTROL_PLANE_TOPOLOGY,
        "workers": obj(
            {
                "machineDeployments": list_of(_MACHINE_DEPLOYMENT_TOPOLOGY, keys=("name",), least=1),
                "machinePools": list_of(_MACHINE_POOL_TOPOLOGY, keys=("name",), least=1),
            },
            least=1,
        ),
        "variables": _VARIABLES,
    }
)
_CIDR_BLOCKS = obj({"cidrBlocks!": list_of(text(least=1, most=43), least=1)})
_COUNTS = {
    "desiredReplicas": INTEGER,
    "replicas": INTEGER,
    "readyReplicas": INTEGER,
    "availableReplicas": INTEGER,
    "upToDateReplicas": INTEGER,
}
_VERSIONS_SEEN = obj({"version!": VERSION, "replicas": number(1)})
_CLUSTER_COUNTS = obj(
    {**_COUNTS, "versions": list_of(_VERSIONS_SEEN, least=1), "upgradePlan": list_of(obj({"version!": VERSION}), least=1)}
)
OLD_STYLE = obj({"v1beta1": ANY})

CLUSTER = {
    "spec": obj(
        {
            "paused": BOOLEAN,
            "clusterNetwork": obj(
                {
                    "apiServerPort": number(1, 65535),
                    "pods": _CIDR_BLOCKS,
                    "services": _CIDR_BLOCKS,
                    "serviceDomain": NAME,
                },
                least=1,
            ),
            "controlPlaneEndpoint": ENDPOINT,
            "controlPlaneRef": REF,
            "infrastructureRef": REF,
            "topology": _TOPOLOGY,
            "availabilityGates": _GATES,
        },
        least=1,
    ),
    "status": obj(
        {
            "conditions": CONDITIONS,
            "phase": text(enum=("Pending", "Provisioning", "Provisioned", "Deleting", "Failed", "Unknown")),
            "observedGeneration": number(1),
            "initialization": obj({"infrastructureProvisioned": BOOLEAN, "controlPlaneInitialized": BOOLEAN}, least=1),
            "controlPlane": _CLUSTER_COUNTS,
            "workers": _CLUSTER_COUNTS,
            "failureDomains": list_of(
                obj({"name!": VERSION, "controlPlane": BOOLEAN, "attributes": map_of(STRING)}), keys=("name",), least=1
            ),
            "deprecated": OLD_STYLE,
        }
    ),
}

_INFRASTRUCTURE = obj({"templateRef!": TEMPLATE_REF, "naming": obj({"template": text(least=1, most=1024)}, least=1)})
_CLASS_MACHINES = {
    "metadata": META,
    "naming": obj({"template": text(least=1, most=1024)}, least=1),
    "readinessGates": _GATES,
    "taints": _TAINTS,
}
CLUSTER_CLASS = {
    "spec": obj(
        {
            "availabilityGates": _GATES,
            "infrastructure!": _INFRASTRUCTURE,
            "controlPlane!": obj(
                {
                    **_CLASS_MACHINES,
                    "templateRef!": TEMPLATE_REF,
                    "machineInfrastructure": obj({"templateRef!": TEMPLATE_REF}),
                    "deletion": obj(_DELETION, least=1),
                    "healthCheck": _health_check(_REMEDIATION),
                }
            ),
            "workers": obj(
                {
                    "machineDeployments": list_of(
                        obj(
                            {
                                **_CLASS_MACHINES,
                                "class!": VERSION,
                                "bootstrap!": obj({"templateRef!": TEMPLATE_REF}),
                                "infrastructure!": obj({"templateRef!": TEMPLATE_REF}),
                                "failureDomain": VERSION,
                                "minReadySeconds": SECONDS,
                                "deletion": obj({**_DELETION, **_DELETION_ORDER}, least=1),
                                "rollout": obj({"strategy": _STRATEGY}, least=1),
                                "healthCheck": _health_check(_WORKER_REMEDIATION),
                            }
                        ),
                        keys=("class",),
                        least=1,
                    ),
                    "machinePools": list_of(ANY),
                },
                least=1,
            ),
            "variables": list_of(obj({"name!": VERSION, "required!": BOOLEAN, "schema!": obj({"openAPIV3Schema!": ANY})}), least=1),
            "patches": list_of(ANY, least=1),
            "kubernetesVersions": list_of(VERSION, least=1),
            "upgrade": ANY,
        }
    ),
    "status": obj({"conditions": CONDITIONS, "observedGeneration": number(1), "variables": list_of(ANY), "deprecated": OLD_STYLE}),
}

_MACHINE_SPEC = obj(
    {
        "clusterName!": SHORT_NAME,
        "bootstrap!": obj({"configRef": REF, "dataSecretName": text(most=253)}),
        "infrastructureRef!": REF,
        "version": VERSION,
        "failureDomain": VERSION,
        "providerID": text(least=1, most=512),
        "minReadySeconds": SECONDS,
        "deletion": obj(_DELETION, least=1),
        "readinessGates": _GATES,
        "taints": _TAINTS,
    }
)
_MACHINE_TEMPLATE = obj({"metadata": META, "spec!": _MACHINE_SPEC})
_ADDRESSES = list_of(
    obj(
        {
            "type!": text(enum=("Hostname", "ExternalIP", "InternalIP", "ExternalDNS", "InternalDNS")),
            "address!": text(least=1, most=256),
        }
    )
)
MACHINE_ADDRESSES = _ADDRESSES
MACHINE = {
    "spec": _MACHINE_SPEC,
    "status": obj(
        {
            "conditions": CONDITIONS,
            "phase": text(
                enum=("Pending", "Provisioning", "Provisioned", "Running", "Updating", "Deleting", "Deleted", "Failed", "Unknown")
            ),
            "observedGeneration": number(1),
            "nodeRef": obj({"name!": NAME}),
            "nodeInfo": map_of(ANY),
            "addresses": _ADDRESSES,
            "initialization": obj({"infrastructureProvisioned": BOOLEAN, "bootstrapDataSecretCreated": BOOLEAN}, least=1),
            "lastUpdated": TIME,
            "certificatesExpiryDate": TIME,
            "failureDomain": VERSION,
            "deletion": map_of(TIME),
            "deprecated": OLD_STYLE,
        }
    ),
}
_SET_STATUS = {
    "conditions": CONDITIONS,
    "observedGeneration": number(1),
    "selector": STRING,
    "replicas": INTEGER,
    "readyReplicas": INTEGER,
    "availableReplicas": INTEGER,
    "upToDateReplicas": INTEGER,
    "versions": list_of(_VERSIONS_SEEN, keys=("version",), least=1),
    "deprecated": OLD_STYLE,
}
MACHINE_DEPLOYMENT = {
    "spec": obj(
        {
            "clusterName!": SHORT_NAME,
            "replicas": REPLICAS,
            "selector!": SELECTOR,
            "template!": _MACHINE_TEMPLATE,
            "paused": BOOLEAN,
            "machineNaming": obj({"template": VERSION}, least=1),
            "deletion": obj(_DELETION_ORDER, least=1),
            "rollout": obj({**_ROLLOUT, "strategy": _STRATEGY}, least=1),
            "remediation": obj({"maxInFlight": INT_OR_STRING}, least=1),
        }
    ),
    "status": obj({**_SET_STATUS, "phase": text(enum=("ScalingUp", "ScalingDown", "Running", "Failed", "Unknown"))}),
}
MACHINE_SET = {
    "spec": obj(
        {
            "clusterName!": SHORT_NAME,
            "replicas": REPLICAS,
            "selector!": SELECTOR,
            "template!": _MACHINE_TEMPLATE,
            "machineNaming": obj({"template": VERSION}, least=1),
            "deletion": obj(_DELETION_ORDER, least=1),
        }
    ),
    "status": obj(_SET_STATUS),
}
MACHINE_HEALTH_CHECK = {
    "spec": obj({"clusterName!": SHORT_NAME, "selector!": SELECTOR, "checks": _CHECKS, "remediation": obj(_REMEDIATION, least=1)}),
    "status": obj(
        {
            "conditions": CONDITIONS,
            "observedGeneration": number(1),
            "expectedMachines": number(0),
            "currentHealthy": number(0),
            "remediationsAllowed": number(0),
            "targets": list_of(NAME),
            "deprecated": OLD_STYLE,
        }
    ),
}
_APPLIED_KIND = text(enum=("Secret", "ConfigMap"))
CLUSTER_RESOURCE_SET = {
    "spec": obj(
        {
            "clusterSelector!": SELECTOR,
            "resources!": list_of(obj({"kind!": _APPLIED_KIND, "name!": NAME}), least=1),
            "strategy": text(enum=("ApplyOnce", "Reconcile")),
        }
    ),
    "status": obj({"conditions": CONDITIONS, "observedGeneration": number(1), "deprecated": OLD_STYLE}),
}
CLUSTER_RESOURCE_SET_BINDING = {
    "spec": obj(
        {
            "clusterName!": SHORT_NAME,
            "bindings": list_of(
                obj(
                    {
                        "clusterResourceSetName!": NAME,
                        "resources": list_of(
                            obj({"kind!": _APPLIED_KIND, "name!": NAME, "applied!": BOOLEAN, "hash": VERSION, "lastAppliedTime": TIME})
                        ),
                    }
                )
            ),
        }
    )
}
