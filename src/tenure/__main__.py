"""``python -m tenure``: the command, for where the script is not on the path."""

from tenure.cli.main import main

if __name__ == "__main__":
    main()
