"""What amp-migrate costs on a folder of real code, beside other tools, in ratios: `python -m tests.bench FOLDER`."""
