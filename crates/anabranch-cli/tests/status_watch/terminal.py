"""A terminal for a test: runs a command in a pseudo-terminal, and answers what stands on its screen.

    terminal.py COLUMNS ROWS COMMAND…

Each line of standard input is a request: `keys HEX`, `resize COLUMNS ROWS`, `signal NAME`, or `screen`. Each is answered by a
line of JSON: what is shown. It understands what the command writes, and fails at anything else.
"""

import codecs
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import threading

CONTROL = re.compile(r"\x1b\[(\??)([\d;]*)([A-Za-z])")


class Screen:
    """The letters and colours of a terminal, its normal screen and the alternate one."""

    def __init__(self, columns, rows):
        self.modes = {7: True, 25: True, 1049: False, 2026: False}
        self.style, self.row, self.column, self.rest = (), 0, 0, ""
        self.resize(columns, rows)

    def resize(self, columns, rows):
        # What a terminal keeps of its text is of no interest here: whoever draws on it draws anew.
        self.columns, self.rows, self.picture = columns, rows, None
        self.cells = [[(" ", ())] * columns for _ in range(rows)]
        # The rest of a picture of the size before may still come.
        self.row, self.column = min(self.row, rows - 1), min(self.column, columns)
        self.normal = getattr(self, "normal", None)

    def take(self, text):
        text = self.rest + text
        self.rest = ""
        at = 0
        while at < len(text):
            letter = text[at]
            if letter == "\x1b":
                control = CONTROL.match(text, at)
                if control is None:
                    assert len(text) - at < 20, repr(text[at : at + 20])
                    self.rest = text[at:]
                    return
                self.control(*control.groups())
                at = control.end()
                continue
            at += 1
            if letter == "\r":
                self.column = 0
            elif letter == "\n":
                self.down()
            else:
                assert letter.isprintable(), repr(letter)
                self.put(letter)

    def put(self, letter):
        if self.column == self.columns:
            if self.modes[7]:
                self.column = 0
                self.down()
            else:
                self.column -= 1
        self.cells[self.row][self.column] = (letter, self.style)
        self.column += 1

    def down(self):
        self.row += 1
        if self.row == self.rows:
            self.row -= 1
            self.cells.pop(0)
            self.cells.append([(" ", ())] * self.columns)

    def control(self, private, numbers, name):
        numbers = [int(number) for number in numbers.split(";") if number]
        if private and name in "hl":
            self.mode(numbers[0], name == "h")
        elif name == "H":
            self.row = self.column = 0
        elif name == "K":
            column = min(self.column, self.columns - 1)
            self.cells[self.row][column:] = [(" ", ())] * (self.columns - column)
        elif name == "J":
            first = 0 if numbers == [2] else self.row
            for row in range(first, self.rows):
                self.cells[row] = [(" ", ())] * self.columns
        elif name == "m":
            self.style = () if numbers in ([], [0]) else tuple(numbers)
        else:
            raise AssertionError(f"{private}{numbers}{name}")

    def mode(self, number, is_set):
        assert number in self.modes, number
        if number == 1049 and is_set != self.modes[number]:
            if is_set:
                self.normal = (self.cells, self.row, self.column)
                self.resize(self.columns, self.rows)
            else:
                self.cells, self.row, self.column = self.normal
                self.resized_normal()
        if number == 2026 and not is_set:
            self.picture = [list(row) for row in self.cells]
        self.modes[number] = is_set

    def resized_normal(self):
        rows = [(row + [(" ", ())] * self.columns)[: self.columns] for row in self.cells]
        blank = [(" ", ())] * self.columns
        self.cells = (rows + [list(blank) for _ in range(self.rows)])[: self.rows]
        self.row, self.column = min(self.row, self.rows - 1), min(self.column, self.columns)

    def seen(self):
        # A picture is shown when it is whole.
        cells = self.picture if self.modes[1049] and self.picture else self.cells
        colours = sorted({style[2] for row in cells for letter, style in row if letter == "▀"})
        return {
            "lines": ["".join(letter for letter, _ in row).rstrip() for row in cells],
            "colours": colours,
            "is_alternate": self.modes[1049],
            "has_cursor": self.modes[25],
            "wraps": self.modes[7],
        }


def main():
    columns, rows, command = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    ours, theirs = pty.openpty()

    def resize(columns, rows):
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    resize(columns, rows)
    screen, lock = Screen(columns, rows), threading.Lock()
    screen.take("$ a command before\r\n")
    before = termios.tcgetattr(theirs)

    def begin():
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    child = subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True, preexec_fn=begin
    )
    decoder = codecs.getincrementaldecoder("utf-8")()

    def drain(seconds):
        """Takes what was written, until nothing came for so long."""
        while select.select([ours], [], [], seconds)[0]:
            screen.take(decoder.decode(os.read(ours, 65536)))

    stopped = threading.Event()

    def read():
        while not stopped.is_set():
            with lock:
                drain(0.01)
            stopped.wait(0.005)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    for line in sys.stdin:
        request, *words = line.split()
        if request == "keys":
            os.write(ours, bytes.fromhex(words[0]))
        elif request == "resize":
            with lock:
                drain(0)
                screen.resize(int(words[0]), int(words[1]))
                resize(int(words[0]), int(words[1]))
        elif request == "signal":
            child.send_signal(getattr(signal, f"SIG{words[0]}"))
        ended = child.poll()
        with lock:
            drain(0.05 if ended is not None else 0)
            seen = screen.seen()
        seen["ended"] = ended
        seen["is_as_before"] = termios.tcgetattr(theirs) == before
        print(json.dumps(seen), flush=True)
    if child.poll() is None:
        child.kill()
    child.wait()
    stopped.set()


main()
