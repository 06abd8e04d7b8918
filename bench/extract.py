"""Scores extraction on labelled pages: word-level F1 per page type and CPU per page, Scrubjay beside trafilatura and
resiliparse in one run. With `--folds DIR` (from `train_extractor.py`) every page is judged by a model that never saw
its registrable domain; without, by the shipped model, which learned from these very pages: good for speed only."""

import argparse
import gc
import re
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from scrubjay.extract.classifier import load_classifier, read_classifier
from scrubjay.extract.decoding import decode_html
from scrubjay.extract.html import extract_html
from train_extractor import FOLDS, TruthPage, fold_of, read_pages, words_of

DATA = Path(__file__).resolve().parent.parent.parent / "shared" / "data" / "wcxb-dev"
_IMAGE = re.compile(r"!\[([^\]]*)\]\([^)]*\)")
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_FENCE = re.compile(r"^\s*(`{3,}|~{3,}).*$", re.M)
_MARKS = re.compile(r"^\s*(?:#{1,6}\s|>+|[-*+]\s|\d+\.\s|\|?(?:\s*:?-+:?\s*\|)+)", re.M)
_EMPHASIS = re.compile(r"\*\*|__|~~|\*|(?<!\w)_|_(?!\w)|\\(?=\W)|\\(?=_)")


def strip_markdown(text: str) -> str:
    text = _LINK.sub(r"\1", _IMAGE.sub(" ", text))
    return _EMPHASIS.sub("", _MARKS.sub("", _FENCE.sub("", text)))


def f1(text: str, truth: str) -> float:
    found, wanted = Counter(words_of(text)), Counter(words_of(truth))
    if not found or not wanted:
        return float(not found and not wanted)
    return 2 * (found & wanted).total() / (found.total() + wanted.total())


def scrubjay(folds: Path | None) -> Callable[[TruthPage], str]:
    models = [read_classifier(folds / f"fold{fold}.npz") for fold in range(FOLDS)] if folds else [load_classifier()]

    def run(page: TruthPage) -> str:
        model = models[fold_of(page.domain)] if folds else models[0]
        return extract_html(decode_html(page.html), url=page.url, classifier=model).markdown

    return run


def trafilatura(page: TruthPage) -> str:
    import trafilatura

    return trafilatura.extract(decode_html(page.html), url=page.url or None, output_format="markdown") or ""


def resiliparse(page: TruthPage) -> str:
    from resiliparse.extract.html2text import extract_plain_text

    return str(extract_plain_text(decode_html(page.html), main_content=True))


def report(name: str, extractor: Callable[[TruthPage], str], pages: list[TruthPage]) -> None:
    extractor(pages[0])
    scores: dict[str, list[float]] = defaultdict(list)
    spent = 0.0
    plain = name == "resiliparse"
    for page in pages:
        started = time.process_time()
        text = extractor(page)
        spent += time.process_time() - started
        scores[page.page_type].append(f1(text if plain else strip_markdown(text), page.content))
    every = [score for values in scores.values() for score in values]
    types = "  ".join(f"{kind} {sum(values) / len(values):.3f}" for kind, values in sorted(scores.items()))
    print(f"{name:12} F1 {sum(every) / len(every):.4f}  {1000 * spent / len(pages):5.1f} ms  {types}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, nargs="?", default=DATA)
    parser.add_argument("--folds", type=Path, help="the folder of fold models that train_extractor.py wrote")
    parser.add_argument("--only", choices=("scrubjay", "trafilatura", "resiliparse"))
    arguments = parser.parse_args()
    if not (arguments.data / "truth.jsonl.gz").exists():
        sys.exit(f"No labelled pages in {arguments.data}: give the folder with truth.jsonl.gz and html/.")
    pages = list(read_pages(arguments.data))
    gc.freeze()  # as in the processes of a crawl: extract/worker.py
    gc.set_threshold(50_000, 10, 10)
    if not arguments.folds:
        print("Judged by the shipped model, which has seen these pages; use --folds for scores.")
    makers = {
        "scrubjay": lambda: scrubjay(arguments.folds),
        "trafilatura": lambda: trafilatura,
        "resiliparse": lambda: resiliparse,
    }
    for name, make in makers.items():
        if arguments.only not in (None, name):
            continue
        if find_spec(name) is None:
            print(f"{name:12} is not installed")
        else:
            report(name, make(), pages)


if __name__ == "__main__":
    main()
