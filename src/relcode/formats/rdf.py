"""RDF: N-Triples, N-Quads, Turtle, TriG and RDF/XML, parsed by pyoxigraph.

A fact is (subject, predicate, object) with IRIs for names. Literals are counted and left out, or kept as entities named as N-Triples write
them (``"text"@en``); those of rdfs:label and its like become labels. Blank nodes are named for this file only. The graph a quad is in is not
kept: the graphs are read as one, and how many facts were in a named one is counted. Statements about statements are counted and left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, nullcontext
from typing import Any, BinaryIO

import pyarrow as pa

from relcode.errors import DataError, MissingExtra
from relcode.formats.reading import Batch, ReadOptions, Tally, shown
from relcode.formats.xmlguard import XmlGuard
from relcode.graph.lines import BYTE_ORDER_MARK
from relcode.graph.unpack import refuse_wrapped

FORMS = {"ntriples": "N-Triples", "nquads": "N-Quads", "turtle": "Turtle", "trig": "TriG", "rdfxml": "RDF/XML"}
BATCH_FACTS = 1 << 16
LABEL_PREDICATES = (
    "http://www.w3.org/2000/01/rdf-schema#label",
    "http://www.w3.org/2004/02/skos/core#prefLabel",
    "http://schema.org/name",
    "http://xmlns.com/foaf/0.1/name",
)
LONGEST_LABEL = 1000


def oxigraph() -> Any:
    """Return the pyoxigraph package."""
    try:
        import pyoxigraph
    except ImportError:
        raise MissingExtra("pyoxigraph", "rdf", "reading RDF") from None
    return pyoxigraph


def read_rdf(stream: BinaryIO, form: str, tally: Tally, options: ReadOptions, blank_prefix: str = "") -> Iterator[Batch]:
    """Read a stream of RDF of any form; ``blank_prefix`` tells the blank nodes of one file from those of another."""
    ox = oxigraph()
    text: Any = _WithoutMark(stream, tally.source)
    blank = numbered_blanks(blank_prefix) if form in ("turtle", "trig", "rdfxml") else named_blanks(blank_prefix)
    terms = Terms(ox, tally, options, blank)
    with closing(XmlGuard(text, tally.source)) if form == "rdfxml" else nullcontext(text) as readable:
        parser = ox.parse(readable, format=_format(ox, form))
        yield from terms.batches(parser, lambda line: line)
    tally.prefixes.update(parser.prefixes)


def _format(ox: Any, form: str) -> Any:
    """Return pyoxigraph's word for a form."""
    names = {"ntriples": "N_TRIPLES", "nquads": "N_QUADS", "turtle": "TURTLE", "trig": "TRIG", "rdfxml": "RDF_XML"}
    return getattr(ox.RdfFormat, names[form])


def named_blanks(prefix: str) -> Callable[[str], str]:
    """Return names for blank nodes by their label: in N-Triples the label is what the file says, in whatever order its lines are."""
    return lambda label: f"_:{prefix}{label}"


def numbered_blanks(prefix: str) -> Callable[[str], str]:
    """Return names for blank nodes by order: in Turtle and RDF/XML most have no label, and the parser makes one up anew each time."""
    numbers: dict[str, str] = {}

    def name(label: str) -> str:
        return numbers.get(label) or numbers.setdefault(label, f"_:{prefix}b{len(numbers)}")

    return name


def _batch(*columns: list[str]) -> Batch:
    """Make a batch of Arrow arrays, whose distinct names another thread can find."""
    head, relation, tail = (pa.array(column, pa.large_utf8()) for column in columns)
    return Batch(head, relation, tail)


class _WithoutMark:
    """A stream without a byte order mark at its beginning; the common wrappings of text are refused."""

    def __init__(self, stream: BinaryIO, source: str) -> None:
        self._stream, self._source, self._started = stream, source, False

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(size)
        if not self._started and data:
            self._started = True
            while len(data) < len(BYTE_ORDER_MARK) and (more := self._stream.read(len(BYTE_ORDER_MARK))):
                data += more
            refuse_wrapped(data, self._source)
            data = data.removeprefix(BYTE_ORDER_MARK)
            return data or self._stream.read(size)
        return data


class Terms:
    """From quads to batches of named facts."""

    def __init__(self, ox: Any, tally: Tally, options: ReadOptions, blank: Callable[[str], str]) -> None:
        """Count into ``tally``; name blank nodes by ``blank``."""
        self._iri, self._blank_node, self._literal = ox.NamedNode, ox.BlankNode, ox.Literal
        self._default_graph = ox.DefaultGraph
        self._tally, self._options, self._blank = tally, options, blank
        self._last_error: tuple[object, ...] = ()

    def batches(self, parser: Any, line_of: Callable[[int], int]) -> Iterator[Batch]:
        """Go through a parser's quads; ``line_of`` turns its line numbers into the file's. A line it cannot read is refused or skipped."""
        while True:
            batch, more = self._gather(parser, line_of)
            if len(batch):
                self._tally.facts += len(batch)
                yield batch
            if not more:
                return

    def _gather(self, parser: Any, line_of: Callable[[int], int]) -> tuple[Batch, bool]:
        """Take quads until there are enough for a batch; False with it where there are no more."""
        heads: list[str] = []
        relations: list[str] = []
        tails: list[str] = []
        iri, default_graph = self._iri, self._default_graph
        while len(heads) < BATCH_FACTS:
            try:
                for quad in parser:
                    subject, predicate, tail, graph = quad
                    name = tail.value if type(tail) is iri else self._other(subject, predicate, tail)
                    if name is None:
                        continue
                    if type(graph) is not default_graph:
                        self._tally.graphs += 1
                    heads.append(subject.value if type(subject) is iri else self._blank(subject.value))
                    relations.append(predicate.value)
                    tails.append(name)
                    if len(heads) >= BATCH_FACTS:
                        break
                else:
                    return _batch(heads, relations, tails), False
            except SyntaxError as error:
                self._bad(error, line_of)
        return _batch(heads, relations, tails), True

    def _other(self, subject: Any, predicate: Any, tail: Any) -> str | None:
        """Return the name of an object that is no IRI, or None where it is left out."""
        if type(tail) is self._blank_node:
            return self._blank(tail.value)
        if type(tail) is not self._literal:
            self._tally.skip("statements about statements", str(tail))
            return None
        if predicate.value in LABEL_PREDICATES and type(subject) is self._iri:
            self._label(subject.value, predicate.value, tail)
        if self._options.literals:
            return str(tail)  # as N-Triples write it: line breaks and tabs are escaped
        self._tally.skip("literals (keep them with --literals)", str(tail))
        return None

    def _label(self, subject: str, predicate: str, literal: Any) -> None:
        """Keep a literal as a label if it is better than the one before: English first, then without language; rdfs:label first."""
        language = (literal.language or "").lower()
        english = language == "en" or language.startswith("en-")
        text = " ".join(literal.value.replace("\0", " ").split())
        if (english or not language) and 0 < len(text) <= LONGEST_LABEL:
            found = (2 * LABEL_PREDICATES.index(predicate) + (not english), text)
            self._tally.labels[subject] = min(found, self._tally.labels.get(subject, found))

    def _bad(self, error: SyntaxError, line_of: Callable[[int], int]) -> None:
        """Refuse a statement that does not parse, or count it."""
        line = line_of(int(error.lineno or 1))
        message = shown(str(error.msg).partition(": ")[2] or str(error.msg))
        stuck, self._last_error = error.args == self._last_error, error.args
        if not self._options.skip_bad or stuck:
            raise DataError(f"{self._tally.source}, line {line:,}: not {FORMS[self._tally.form]} ({message}); --skip-bad leaves such lines out")
        self._tally.skip(f"not {FORMS[self._tally.form]}", f"line {line:,}: {message}")
