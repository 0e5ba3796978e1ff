"""From a request to what the sidecar makes of it, as its proxy would.

Owns: reading the target, decoding, and the request as an agent would then get it.
Never: refuses or reads anything itself.
"""

from __future__ import annotations

from dataclasses import replace

from multidict import CIMultiDict, CIMultiDictProxy

from sidecar.bindings import decode as decoding
from sidecar.bindings.surface import Surface
from sidecar.bindings.target import read_target
from sidecar.model import Call, Head, Other, Refused, Unreadable
from tests.differential.comparing import answers_to, disagreements
from tests.differential.reading import Answer, Asked, Readers


def judged(asked: Asked, surface: Surface) -> Call | Other | Unreadable | Refused:
    """What is decoded, or the refusal of a target that can be read in two ways."""
    head = Head(asked.method, asked.target, CIMultiDictProxy(CIMultiDict(asked.headers)))
    try:
        target = read_target(asked.target)
    except Refused as refused:
        return refused
    return decoding.decode(head, target, asked.body, surface)


def compared(
    asked: Asked, decoded: Call | Other, readers: Readers
) -> tuple[list[str], dict[str, dict[str, Answer]]]:
    """The disagreements about what is forwarded, and what was answered: the path as judged, the bytes as sent."""
    answers = answers_to(decoded, replace(asked, target=decoded.target), readers)
    return disagreements(decoded, answers), answers
