"""The smallest files of each kind that a reader accepts, made on the spot."""

import io
import zipfile

_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006"
_WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_SHEET = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_SLIDES = "http://schemas.openxmlformats.org/presentationml/2006/main"
_DRAWING = "http://schemas.openxmlformats.org/drawingml/2006/main"


def _archive(parts: dict[str, str]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in parts.items():
            archive.writestr(name, text)
    return packed.getvalue()


def _office(main: str, content_type: str, parts: dict[str, str]) -> bytes:
    types = (
        f'<Types xmlns="{_PACKAGE}/content-types"><Default Extension="rels" ContentType="application/vnd.openxmlformats'
        f'-package.relationships+xml"/><Default Extension="xml" ContentType="application/xml"/>'
        f'<Override PartName="/{main}" ContentType="{content_type}"/></Types>'
    )
    return _archive(
        {
            "[Content_Types].xml": types,
            "_rels/.rels": _relations(f"{_OFFICE}/relationships/officeDocument", main),
            **parts,
        }
    )


def _relations(kind: str, target: str) -> str:
    return (
        f'<Relationships xmlns="{_PACKAGE}/relationships">'
        f'<Relationship Id="rId1" Type="{kind}" Target="{target}"/></Relationships>'
    )


def docx(text: str = "Hello from Word") -> bytes:
    body = (
        f'<w:document xmlns:w="{_WORD}"><w:body><w:p><w:pPr><w:pStyle w:val="Heading1"/></w:pPr><w:r>'
        f"<w:t>Quarterly report</w:t></w:r></w:p><w:p><w:r><w:t>{text}</w:t></w:r></w:p></w:body></w:document>"
    )
    kind = "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"
    return _office("word/document.xml", kind, {"word/document.xml": body})


def xlsx() -> bytes:
    book = (
        f'<workbook xmlns="{_SHEET}" xmlns:r="{_OFFICE}/relationships"><sheets>'
        f'<sheet name="Prices" sheetId="1" r:id="rId1"/></sheets></workbook>'
    )
    sheet = (
        f'<worksheet xmlns="{_SHEET}"><sheetData><row r="1"><c r="A1" t="inlineStr"><is><t>Fruit</t></is></c>'
        f'<c r="B1" t="inlineStr"><is><t>Price</t></is></c></row><row r="2"><c r="A2" t="inlineStr"><is><t>Apple</t>'
        f'</is></c><c r="B2"><v>3</v></c></row></sheetData></worksheet>'
    )
    return _office(
        "xl/workbook.xml",
        "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml",
        {
            "xl/workbook.xml": book,
            "xl/_rels/workbook.xml.rels": _relations(f"{_OFFICE}/relationships/worksheet", "worksheets/sheet1.xml"),
            "xl/worksheets/sheet1.xml": sheet,
        },
    )


def pptx() -> bytes:
    show = (
        f'<p:presentation xmlns:p="{_SLIDES}" xmlns:r="{_OFFICE}/relationships"><p:sldIdLst>'
        f'<p:sldId id="256" r:id="rId1"/></p:sldIdLst></p:presentation>'
    )
    slide = (
        f'<p:sld xmlns:p="{_SLIDES}" xmlns:a="{_DRAWING}"><p:cSld><p:spTree><p:nvGrpSpPr><p:cNvPr id="1" name=""/>'
        f'<p:cNvGrpSpPr/><p:nvPr/></p:nvGrpSpPr><p:grpSpPr/><p:sp><p:nvSpPr><p:cNvPr id="2" name="T"/><p:cNvSpPr/>'
        f'<p:nvPr><p:ph type="title"/></p:nvPr></p:nvSpPr><p:spPr/><p:txBody><a:bodyPr/><a:p><a:r>'
        f"<a:t>Slide about jays</a:t></a:r></a:p></p:txBody></p:sp></p:spTree></p:cSld></p:sld>"
    )
    return _office(
        "ppt/presentation.xml",
        "application/vnd.openxmlformats-officedocument.presentationml.presentation.main+xml",
        {
            "ppt/presentation.xml": show,
            "ppt/_rels/presentation.xml.rels": _relations(f"{_OFFICE}/relationships/slide", "slides/slide1.xml"),
            "ppt/slides/slide1.xml": slide,
        },
    )


def epub() -> bytes:
    package = (
        '<package xmlns="http://www.idpf.org/2007/opf" version="3.0" unique-identifier="id"><metadata '
        'xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:identifier id="id">x</dc:identifier><dc:title>A Book'
        "</dc:title><dc:language>en</dc:language><dc:creator>Jay</dc:creator></metadata><manifest>"
        '<item id="a" href="a.xhtml" media-type="application/xhtml+xml"/></manifest><spine><itemref idref="a"/>'
        "</spine></package>"
    )
    container = (
        '<container version="1.0" xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles><rootfile '
        'full-path="c.opf" media-type="application/oebps-package+xml"/></rootfiles></container>'
    )
    chapter = (
        '<html xmlns="http://www.w3.org/1999/xhtml"><head><title>x</title></head><body><h1>Chapter</h1>'
        "<p>Words of the book.</p></body></html>"
    )
    return _archive(
        {
            "mimetype": "application/epub+zip",
            "META-INF/container.xml": container,
            "c.opf": package,
            "a.xhtml": chapter,
        }
    )


def pdf(text: str = "Hello from PDF", *, encrypted: bool = False) -> bytes:
    stream = f"BT /F1 24 Tf 72 700 Td ({text}) Tj ET".encode()
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R "
        b"/Resources << /Font << /F1 5 0 R >> >> >>",
        b"<< /Length %d >>\nstream\n" % len(stream) + stream + b"\nendstream",
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        b"<< /Title (A PDF title) /Author (Jay) /CreationDate (D:20260102030405Z) >>",
        b"<< /Filter /Standard /V 2 /R 3 /Length 128 /P -4 /O <%s> /U <%s> >>" % (b"11" * 32, b"22" * 32),
    ]
    made, offsets = b"%PDF-1.4\n", []
    for number, content in enumerate(objects, 1):
        offsets.append(len(made))
        made += b"%d 0 obj\n" % number + content + b"\nendobj\n"
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    locked = b"/Encrypt 7 0 R /ID [<31> <31>]" if encrypted else b""
    return (
        made
        + b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
        + table
        + b"trailer << /Size %d /Root 1 0 R /Info 6 0 R %s >>\n" % (len(objects) + 1, locked)
        + b"startxref\n%d\n%%%%EOF" % len(made)
    )
