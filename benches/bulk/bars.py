"""Figures, each with its bar: printed when it is measured, and counted for the exit status."""

import json
import os


class Bars:
    def __init__(self):
        self.met = 0
        self.missed = []

    def at_most(self, text, figure, bar, unit="", note=""):
        self.judge(text, figure, f"<= {bar:.4g}{unit}", figure <= bar, unit, note)

    def at_least(self, text, figure, bar, unit="", note=""):
        self.judge(text, figure, f">= {bar:.4g}{unit}", figure >= bar, unit, note)

    def judge(self, text, figure, bar, is_met, unit, note):
        print(f"  {text}: {figure:.4g}{unit} (bar {bar}: {'met' if is_met else 'NOT met'}){'; ' + note if note else ''}", flush=True)
        if is_met:
            self.met += 1
        else:
            self.missed.append(text)

    def end(self):
        """The exit status: 3 where a bar is not met."""
        if self.met or self.missed:
            print(f"\n{self.met} of {self.met + len(self.missed)} bars are met{'; NOT met: ' if self.missed else ''}{'; '.join(self.missed)}")
        return 3 if self.missed else 0


def tell(text):
    print(f"  {text}", flush=True)


def title(text):
    """A part's or case's first line, with the machine's load, as seconds depend on it."""
    print(f"\n{text} (load {os.getloadavg()[0]:.1f})", flush=True)


def json_of(text):
    """The line of JSON among what a program printed."""
    return json.loads(next(line for line in text.splitlines() if line.startswith("{")))
