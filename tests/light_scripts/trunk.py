"""The trunk stage without its science."""

from light import make

if __name__ == "__main__":
    make("trunk")
