"""Build paper.pdf from paper.md by pandoc and typst (`pip install pypandoc_binary typst`)."""

from pathlib import Path

import pypandoc
import typst

HERE = Path(__file__).parent


def main() -> None:
    """Let pandoc resolve the citations, and typst set the pages."""
    source = HERE / "paper.typ"
    options = ["--standalone", "--citeproc", f"--bibliography={HERE / 'paper.bib'}"]
    pypandoc.convert_file(
        str(HERE / "paper.md"), "typst", outputfile=str(source), extra_args=options
    )
    typst.compile(str(source), output=str(HERE / "paper.pdf"), root=str(HERE.parent))
    source.unlink()


if __name__ == "__main__":
    main()
