"""`python -m npusim`: the command line."""

from npusim.cli.app import main

if __name__ == "__main__":
    main()
