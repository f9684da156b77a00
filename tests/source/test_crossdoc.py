"""Documents together: names, addresses, Rancher; who yields to whom (ACCEPTANCE 2.3, MODEL 2)."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubehenge.model.network import Address, AddressBlock
from kubehenge.model.site import SiteSettings
from kubehenge.source.crossdoc import Claim, DocumentKey, check_against_site, judge_together
from kubehenge.source.findings import notation
from tests.source.clusters import cluster, judge

RANCHER = {
    "rancher": {"install": True, "hostname": "rancher.example.com"},
    "controlPlaneMachine": {"cores": 4},
    "workerMachine": {"cores": 4},
}


def claim(path, *, name, endpoint="10.0.9.1", addresses=("10.0.1.0/24",), bridge="vmbr0", vlan=None, held=False, since=0, rancher=False):
    network = {"bridge": bridge, "addresses": list(addresses), "prefix": 8, "gateway": "10.255.255.254", "dnsServers": ["10.255.255.254"]}
    ranges = {"pods": {"cidrBlocks": ["172.16.0.0/16"]}, "services": {"cidrBlocks": ["172.17.0.0/16"]}}
    variables = {"network": network | ({"vlan": vlan} if vlan else {}), "controlPlaneEndpoint": endpoint} | (RANCHER if rancher else {})
    judged = judge(cluster(metadata__name=name, spec__clusterNetwork=ranges, variables=variables))
    assert judged.declaration is not None, judged.problems
    return Claim(key=DocumentKey(source="fleet", path=path), line=3, declaration=judged.declaration, held=held, since=since)


def fields(refused):
    return {key.path: [notation(finding.path) for finding in found] for key, found in refused.items()}


def test_clusters_that_keep_apart_are_all_let_be():
    claims = [
        claim("a", name="a", endpoint="10.0.9.1", addresses=["10.0.1.0/24"]),
        claim("b", name="b", endpoint="10.0.9.2", addresses=["10.0.2.0-10.0.2.9", "10.0.3.0/24"]),
        claim("c", name="c", endpoint="10.0.9.1", addresses=["10.0.1.0/24"], vlan=7),
        claim("d", name="d", endpoint="10.0.9.1", addresses=["10.0.1.0/24"], bridge="vmbr1", rancher=True),
    ]
    assert judge_together(claims) == {}


def test_the_same_cluster_twice_is_refused_where_it_came_later():
    first, second = claim("a", name="x", since=3), claim("b", name="x", since=7, addresses=["10.0.5.0/24"])
    refused = judge_together([second, first])
    assert fields(refused) == {"b": ["metadata.name"]}
    assert "fleet, a, line 3" in refused[second.key][0].message


def test_the_holder_of_a_name_wins_whenever_its_document_came():
    holder, other = claim("z", name="x", held=True, since=9), claim("a", name="x", since=1)
    assert fields(judge_together([other, holder])) == {"a": ["metadata.name"]}
    assert fields(judge_together([other])) == {}, "the holder is gone: the other is judged again and takes the name"


@pytest.mark.parametrize(
    ("endpoint", "addresses", "refused_fields"),
    [
        pytest.param(
            "10.0.9.2", ["10.0.4.0/24", "10.0.1.200-10.0.2.3"], ["variables.network.addresses[1]"], id="a range that reaches over"
        ),
        pytest.param("10.0.9.2", ["10.0.1.5"], ["variables.network.addresses[0]"], id="one address inside"),
        pytest.param("10.0.9.2", ["10.0.0.0/22"], ["variables.network.addresses[0]"], id="a range around"),
        pytest.param("10.0.1.7", ["10.0.2.0/24"], ["variables.controlPlaneEndpoint"], id="a virtual IP inside the other's addresses"),
        pytest.param("10.0.9.1", ["10.0.2.0/24"], ["variables.controlPlaneEndpoint"], id="the other's virtual IP"),
        pytest.param("10.0.8.1", ["10.0.9.0/24"], ["variables.network.addresses[0]"], id="addresses around the other's virtual IP"),
        pytest.param(
            "10.0.9.1", ["10.0.1.0/25"], ["variables.controlPlaneEndpoint", "variables.network.addresses[0]"], id="two errors at once"
        ),
    ],
)
def test_addresses_of_another_cluster_are_refused(endpoint, addresses, refused_fields):
    first, second = claim("a", name="a"), claim("b", name="b", endpoint=endpoint, addresses=addresses)
    refused = judge_together([second, first])
    assert fields(refused) == {"b": refused_fields}
    assert all("cluster clusters/a (fleet, a, line 3)" in finding.message for finding in refused[second.key])


def test_a_holder_that_is_refused_keeps_its_name_and_no_other_does():
    running = claim("a", name="a", held=True, since=1)
    for held in (True, False):
        edited = claim("b", name="b", held=held, since=2, endpoint="10.0.9.2")
        newcomer = claim("c", name="b", since=2, endpoint="10.0.9.3", addresses=["10.0.3.0/24"])
        refused = fields(judge_together([running, edited, newcomer]))
        assert refused == {"b": ["variables.network.addresses[0]"]} | ({"c": ["metadata.name"]} if held else {})


def test_a_second_rancher_is_refused_and_named():
    claims = [
        claim("a", name="a", rancher=True, since=2),
        claim("b", name="b", rancher=True, since=1, endpoint="10.0.9.2", addresses=["10.0.2.0/24"]),
    ]
    refused = judge_together(claims)
    assert fields(refused) == {"a": ["variables.rancher.install"]}
    assert "clusters/b" in refused[claims[0].key][0].message


def test_a_refused_document_refuses_no_other():
    first = claim("a", name="a", addresses=["10.0.1.0/24"])
    second = claim("b", name="b", endpoint="10.0.9.2", addresses=["10.0.1.0-10.0.2.255"])
    third = claim("c", name="c", endpoint="10.0.9.3", addresses=["10.0.2.0/24"])
    assert fields(judge_together([first, second, third])) == {"b": ["variables.network.addresses[0]"]}


def test_two_sites_of_one_name_are_one_too_many():
    one = Claim(key=DocumentKey(source="fleet", path="a"), line=1, declaration=SiteSettings())
    other = Claim(key=DocumentKey(source="lab", path="a"), line=1, declaration=SiteSettings(bridges=("vmbr1",)))
    assert [key.source for key in judge_together([other, one])] == ["lab"]


blocks = st.tuples(st.integers(0, 40), st.integers(0, 3)).map(lambda found: f"10.0.0.{found[0]}-10.0.0.{found[0] + found[1]}")
fleets = st.lists(
    st.tuples(
        st.lists(blocks, min_size=1, max_size=2), st.integers(50, 60), st.integers(0, 3), st.booleans(), st.booleans(), st.booleans()
    ),
    min_size=2,
    max_size=8,
)
CACHE = {}


def fleet_of(drawn):
    claims = []
    for index, (addresses, endpoint, since, held, rancher, other_network) in enumerate(drawn):
        name = f"c{index // 2 if rancher else index}"
        settings = {"name": name, "addresses": tuple(addresses), "endpoint": f"10.0.0.{endpoint}", "rancher": rancher}
        key = (index, *settings.values(), since, held, other_network)
        if key not in CACHE:
            CACHE[key] = claim(f"f{index}", **settings, since=since, held=held, vlan=7 if other_network else None)
        claims.append(CACHE[key])
    return claims


@given(fleets, st.randoms(use_true_random=False))
def test_the_answer_is_the_same_in_any_order_and_what_is_left_agrees(drawn, shuffler):
    claims = fleet_of(drawn)
    refused = judge_together(claims)
    shuffled = list(claims)
    shuffler.shuffle(shuffled)
    assert judge_together(shuffled) == refused
    left = [claim for claim in claims if claim.key not in refused]
    assert judge_together(left) == {}, "those that are left refuse one another"
    for one in claims:
        if one.key in refused:
            kept = [other for other in claims if other.held and other.name == one.name and other is not one]
            assert one.key in judge_together([*left, one]) or kept, "nothing stands against it"
    assert_pairwise_apart([claim.declaration for claim in left])


def assert_pairwise_apart(clusters):
    for index, one in enumerate(clusters):
        for other in clusters[index + 1 :]:
            assert one.scope != other.scope
            assert not (one.rancher.install and other.rancher.install)
            if (one.network.bridge, one.network.vlan) == (other.network.bridge, other.network.vlan):
                assert one.endpoint != other.endpoint
                assert not any(mine.overlaps(theirs) for mine in one.network.blocks for theirs in other.network.blocks)
                assert not any(other.endpoint in block for block in one.network.blocks)
                assert not any(one.endpoint in block for block in other.network.blocks)


def test_ten_thousand_clusters_are_judged_together():
    base = claim("a", name="a").declaration
    claims = []
    for index in range(10_000):
        first = Address((10 << 24) + index * 16)
        network = replace(base.network, blocks=(AddressBlock(first=first, last=Address(first + 9)),))
        declaration = replace(base, name=f"c{index}", endpoint=Address(first + 10), network=network)
        claims.append(Claim(key=DocumentKey(source="fleet", path=f"c{index}.yaml"), line=1, declaration=declaration))
    clash = Claim(key=DocumentKey(source="fleet", path="z.yaml"), line=1, declaration=replace(claims[7777].declaration, name="clash"))
    random.Random(1).shuffle(claims)
    assert fields(judge_together([*claims, clash])) == {"z.yaml": ["variables.controlPlaneEndpoint", "variables.network.addresses[0]"]}


def test_a_site_says_which_storages_and_bridges_clusters_may_use():
    declaration = claim("a", name="a").declaration
    allowed = SiteSettings(storages=("shared-storage",), bridges=("vmbr0",))
    assert check_against_site(declaration, allowed) == ()
    assert check_against_site(declaration, SiteSettings()) == ()
    other = SiteSettings(storages=("ceph",), bridges=("vmbr1", "vmbr2"))
    found = check_against_site(declaration, other)
    assert [notation(finding.path) for finding in found] == ["variables.storage", "variables.network.bridge"]
    assert "vmbr1, vmbr2" in found[1].message
