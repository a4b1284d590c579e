"""The evaluation without its science."""

from light import evaluate

if __name__ == "__main__":
    evaluate()
