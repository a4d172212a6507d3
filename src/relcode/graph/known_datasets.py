"""The benchmarks that relcode knows by name: where copies lie, how large they are, what is in them, and the SHA-256 of every split.

The SHA-256 is that of a split's text with every carriage return left out and a newline at its end: copies of one split differ in these two
(the published FB15k-237 has Windows line ends, some copies lack the last newline) and in nothing else. Counts are of the same text.
"""

from __future__ import annotations

from dataclasses import dataclass

RAW = "https://raw.githubusercontent.com"
ROTATE = f"{RAW}/DeepGraphLearning/KnowledgeGraphEmbedding/617062aaedf53bf4d6b44450a580a96dc30e0632/data"
AUTHORS = f"{RAW}/tianran/glimvec/master/data"
CONVE = f"{RAW}/TimDettmers/ConvE/master"
PYKEEN = f"{RAW}/pykeen/pykeen/master/src/pykeen/datasets"
VILLMOW = f"{RAW}/villmow/datasets_knowledge_embedding/9e392453d6804d1f51c13e5650ae58ed48b638d5"
CODEX = f"{RAW}/tsafavi/codex/e805ea2f512d7f0f8e44f213bc4db51dac0de118/data/triples"
WORDNET = "WordNet 3.0 licence"
UNSTATED = "none stated for the facts"


@dataclass(frozen=True, slots=True)
class Split:
    """One split as it must be: facts, bytes and SHA-256 of its text (see above)."""

    facts: int
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class KnownDataset:
    """A benchmark: copies of it, and what is in every copy.

    A mirror is an address with ``{split}`` in it, or that of a .tar.gz which has train.txt, valid.txt and test.txt somewhere inside.
    """

    name: str
    about: str
    licence: str
    entities: int
    relations: int
    train: Split
    valid: Split
    test: Split
    mirrors: tuple[str, ...]

    def split(self, name: str) -> Split:
        """Return "train", "valid" or "test"."""
        return {"train": self.train, "valid": self.valid, "test": self.test}[name]

    @property
    def size(self) -> int:
        """Return the bytes of all splits."""
        return self.train.size + self.valid.size + self.test.size


KNOWN = {
    entry.name: entry
    for entry in (
        KnownDataset(
            "wn18",
            "WordNet, 18 relations with their inverses",
            WORDNET,
            40_943,
            18,
            Split(141_442, 4_758_553, "24c9b02dc57d3ae8ca8467ce355995edee7be8eddc3bd070ee34d3c6fc3c95eb"),
            Split(5_000, 169_033, "13347bfb5e17d1cae003e0bfe29b4716d3ab748e8cfb6af997138d37da3a51dc"),
            Split(5_000, 168_947, "d22c19d176d4ba6a6f0d0c6bfce39ab3c16e3b20e1df6f9efe0d9ed86542fa10"),
            (f"{ROTATE}/wn18/{{split}}.txt", f"{AUTHORS}/wn18/{{split}}.txt"),
        ),
        KnownDataset(
            "fb15k",
            "Freebase, 1,345 relations with their inverses",
            UNSTATED,
            14_951,
            1_345,
            Split(483_142, 37_606_618, "f9cdfd2685f6483bd3a499d433919b15d62f0715c6cf18b2ca30c2aa5c47a704"),
            Split(50_000, 3_895_668, "471929cde9cf74b1caa8348c2b601c8010d6b2f2a56bae49b4ebfd14c9bce855"),
            Split(59_071, 4_601_511, "5b60b4de325482c3368e22d0b7452d465b09a610fea0ce3768d8b1e8b5a7e42a"),
            (f"{ROTATE}/FB15k/{{split}}.txt", f"{AUTHORS}/fb15k/{{split}}.txt"),
        ),
        KnownDataset(
            "wn18rr",
            "WN18 without inverse relations",
            WORDNET,
            40_943,
            11,
            Split(86_835, 3_135_377, "038612e783c215ee5f3ca9fbfca27b8d0739be1028fe4ee7c174aecf0b83d5df"),
            Split(3_034, 110_415, "453ce7202afa58094a04d2b1560ee2b02660f1c260b32ce6651c8ccedd1028ab"),
            Split(3_134, 113_180, "0383bceaaa1096cf3c03ec021ed0048068e2355dbfc0239b292cefdac821cec5"),
            (f"{ROTATE}/wn18rr/{{split}}.txt", f"{AUTHORS}/wn18rr/{{split}}.txt", f"{CONVE}/WN18RR.tar.gz"),
        ),
        KnownDataset(
            "fb15k-237",
            "FB15k without inverse relations",
            UNSTATED,
            14_541,
            237,
            Split(272_115, 21_005_177, "61099230e4439f90885ca9767739e31e8e32f54736fa1c35952b27997bc7c08a"),
            Split(17_535, 1_285_566, "749cbe9d923bac7b9354da5614ecfed2e0220256d442c3e04a6b303db1f273d9"),
            Split(20_466, 1_499_033, "e2e35e8e6113de220140b6f44dc71a5207b0fc6872d575e874aefe13259b655b"),
            (f"{ROTATE}/FB15k-237/{{split}}.txt", f"{AUTHORS}/fb15k-237/{{split}}.txt", f"{CONVE}/FB15k-237.tar.gz"),
        ),
        KnownDataset(
            "umls",
            "medical concepts and how they relate",
            UNSTATED,
            135,
            46,
            Split(5_216, 260_013, "873ef4925516b83e7f6f8cc02b4be51d848828710a7f65a956f0ac4a9e452f35"),
            Split(652, 32_963, "025c98f8a4891e2a6582ec5b40ee0d904031edad9c52554522f4b7904820c98e"),
            Split(661, 32_968, "a7eb529a3d2810fcc96341ccc97c625a5e202f8389673aa6bd317eeebbb79014"),
            (f"{PYKEEN}/umls/{{split}}.txt", f"{VILLMOW}/other/umls/{{split}}.txt", f"{AUTHORS}/umls/{{split}}.txt", f"{CONVE}/umls.tar.gz"),
        ),
        KnownDataset(
            "kinship",
            "who calls whom what among the Alyawarra",
            UNSTATED,
            104,
            25,
            Split(8_544, 208_710, "738612111a6acf0e39662bde24c7e72a4d1edf20931beea077da367dda689731"),
            Split(1_068, 26_088, "c56f8630a583178b1e569f11a64aa535ae1ce0b0912d8b1e24716be2b37f04da"),
            Split(1_074, 26_255, "05e5733265761d55be9c05bfaff5a8d0808df46f9c1e9d66cc3f2fe114e43d88"),
            (f"{PYKEEN}/kinships/{{split}}.txt", f"{AUTHORS}/kinship/{{split}}.txt", f"{CONVE}/kinship.tar.gz"),
        ),
        KnownDataset(
            "nations",
            "how fourteen nations dealt with each other",
            UNSTATED,
            14,
            55,
            Split(1_592, 39_101, "0830fa9da8e5bba2ccdaa45b7bdc9130451ba66b09ff2708f35fccaf82473e57"),
            Split(199, 4_851, "2b337a62e51a2f45c283eac98a70d21b7e0e102136be1539b2a52c652a7b0530"),
            Split(201, 4_951, "3971085165b47b6aeaec68058c6d8d98b3005e929db81268410b95ae4db770ab"),
            (f"{PYKEEN}/nations/{{split}}.txt", f"{AUTHORS}/nations/{{split}}.txt", f"{CONVE}/nations.tar.gz"),
        ),
        KnownDataset(
            "codex-s",
            "Wikidata, small, without trivial inverses",
            "MIT (tsafavi/codex)",
            2_034,
            42,
            Split(32_888, 615_428, "64f93b7f314f3936a6f65739721429db3f6a7c8f5a1e1104ec3bb544f7434f59"),
            Split(1_827, 34_323, "3831c0e57daef03c3a18cdd1a72e370b496f696c5218883d35c7d2ab8a6a772c"),
            Split(1_828, 34_252, "27127fcb34688c4778e88a39ef3c9b540807da846021e9d9685660ac1838aca1"),
            (f"{CODEX}/codex-s/{{split}}.txt", f"{RAW}/tsafavi/codex/master/data/triples/codex-s/{{split}}.txt"),
        ),
    )
}
