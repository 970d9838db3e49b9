# ruff: noqa: RUF001, E501, letters and signs of other scripts are meant
"""Encodings of text: guess a file's encoding from its bytes, by the letters that texts in a language are made of.

A detector that counts letters of running text, such as charset-normalizer, is wrong on half of short tables, which have
ten words above a thousand numbers.
"""

from __future__ import annotations

import codecs
import re
from collections import Counter
from collections.abc import Iterator

_ROMAN, _CENTRAL = ("cp1252", "cp850"), ("cp1250", "iso8859-2")
_LATIN = (
    ("äöüßÄÖÜ", _ROMAN), ("éèàâçêîôûëïùœÉÈÀÇÊ", _ROMAN), ("áéíóúüñÁÉÍÓÚÑ¿¡", _ROMAN), ("åäöøæÅÄÖØÆé", _ROMAN),
    ("ãõáéíóúâêôçàÁÉÍÓÚÇÃ", _ROMAN), ("àèéìòùÀÈÉ", _ROMAN), ("çğıöşüâÇĞİÖŞÜ", ("cp1254",)),
    ("ěščřžýáíéůúťďňóôľĺŕäĚŠČŘŽÝÁÍÉÚŤĎŇÔĽ", _CENTRAL), ("ąćęłńóśźżĄĆĘŁŃÓŚŹŻ", _CENTRAL),
    ("áéíóöőúüűÁÉÍÓÖŐÚÜŰ", _CENTRAL), ("ăâîșțşţĂÂÎŞŢ", _CENTRAL), ("čćđšžČĆĐŠŽ", _CENTRAL),
    ("áéíóúýþæöðÁÉÍÓÚÞÖ", _ROMAN), ("āčēģīķļņšūžĀČĒĢĪĶĻŅŠŪŽ", ("cp1257",)), ("ąčęėįšųūžĄČĘĖĮŠŲŪŽ", ("cp1257",)),
    ("äõöüšžÄÕÖÜŠŽ", ("cp1257",)),
)  # fmt: skip
"""Letters of languages beyond those of English, and encodings that have them."""
_SCRIPTS = (
    ("оеаинтсрвлкмдпу", "а-яёіїєґў", ("cp1251", "koi8-r", "cp866", "koi8-u", "iso8859-5")),
    ("αοιετσνηυρκπμλά", "ά-ώ", ("cp1253", "iso8859-7")),
    ("יוהלאתרמבשנ", "א-ת", ("cp1255",)),
    ("اليمنرتبدوهس", "ء-ي", ("cp1256",)),
    ("านรอกเงมยลวดทสตะัี่้ิุ", "ก-๛", ("cp874",)),
)
"""Frequent letters of scripts, all of them, and encodings that have them; of both cases."""
_SIGNS = "°º²³µ€£–—’‘“”„…·×±§№«»%′℃\N{NO-BREAK SPACE}"
_WORDS = "年月日時时間间分秒温溫気氣度地点點站名城市区區電电力負负荷載量雨風风速水位降湿濕圧压值價价格數数東京北上海臺灣売額人実績予測需要"
"""Characters that are frequent in tables."""
_ASIAN = (
    ("cp932", ((0x81, 0x83), (0x88, 0x97))), ("gb18030", ((0xA1, 0xA3), (0xB0, 0xD7))), ("big5", ((0xA1, 0xA3), (0xA4, 0xC6))),
    ("euc-jp", ((0xA1, 0xA5), (0xB0, 0xCF))), ("cp949", ((0xA1, 0xA3), (0xB0, 0xC8))),
)  # fmt: skip
"""Encodings of two bytes, and first bytes of their signs and of their more frequent half of characters."""
_HANGUL = re.compile("[가-힣]")
_ODD_IN_LATIN = re.compile(r"[^\W\d_\x00-\x7f]{3}|[A-Za-z][°²³·§±¹¾„“”…†‡‰‹›•™˜¤][A-Za-z]")
_ODD_ELSEWHERE = re.compile(r"[a-zа-яα-ω][Α-ΩА-Я]|[A-Za-z](?=[^\W\d_\x00-\x7f])|(?<=[^\W\d_\x00-\x7f])[A-Za-z]")
"""Letters in an order that words hardly have: a capital after a small letter, and letters of two scripts."""


def encoding_of(head: bytes) -> str:
    """Return the encoding of a text, guessed from its first bytes."""
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    for first, name in ((1, "utf-16-le"), (0, "utf-16-be")):
        if head[first::2].count(0) > len(head) // 4:
            return name
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        found = max(_scores(head), key=lambda one: one[0], default=(0.0, "cp1252"))[1]
        return "latin-1" if found == "cp1252" and not re.search(rb"[\x80-\x9f]", head) else found
    return "utf-8-sig" if head.startswith(codecs.BOM_UTF8) else "utf-8"


def _scores(head: bytes) -> Iterator[tuple[float, str]]:
    """Yield a score from 0 to 1 for each encoding, those first that are more frequent in files."""
    for letters, latin in _LATIN:
        for name in latin:
            if (text := _decoded(head, name)) is not None:
                yield _share(text, dict.fromkeys(letters, 1.0), _ODD_IN_LATIN), name
    for often, all_of, names in _SCRIPTS:
        for name in names:
            if (text := _decoded(head, name)) is not None:
                known = {one: 1.0 if one.lower() in often else 0.6 for one in re.findall(f"(?i)[{all_of}]", text)}
                yield _share(text, known, _ODD_ELSEWHERE), name
    for name, (signs, usual) in _ASIAN:
        if (text := _decoded(head, name)) is not None:
            known = dict[str, float]()
            for one in {*text} - {*_SIGNS}:
                lead = one.encode(name)[0]
                in_half = usual[0] <= lead <= usual[1] or signs[0] <= lead <= signs[1]
                known[one] = 1.0 if one in _WORDS else (0.85 if _HANGUL.match(one) else 0.8) * in_half
            yield _share(text, known, None), name


def _decoded(head: bytes, name: str) -> str | None:
    try:
        return codecs.getincrementaldecoder(name)().decode(head)
    except UnicodeDecodeError:
        return None


def _share(text: str, known: dict[str, float], odd: re.Pattern[str] | None) -> float:
    """Return the mean weight of the characters beyond ASCII, less the number of ``odd`` places for each of them."""
    counts = Counter(one for one in text if one > "\x7f")
    known = dict.fromkeys(_SIGNS, 1.0) | known
    places = 0 if odd is None else len(odd.findall(text))
    return (sum(count * known.get(one, 0.0) for one, count in counts.items()) - places) / max(1, counts.total())
