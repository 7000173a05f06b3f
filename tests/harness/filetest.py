"""File tests: a .tdsl, .tir, .kir or .plan file that carries its own driver
and expectations in comments (`//`, `#` or `;`).

  RUN: COMMAND          a shell command that must exit 0; several may follow.
                        %s the file, %S its folder, %t a private scratch path,
                        %D the root of the tree; `tdslc` is the built one.
  RUN[N]: COMMAND       must exit with status N
  RUN FOO: COMMAND      its output is checked by the FOO lines (default CHECK)
  CHECK: TEXT           appears in the output, after the previous match
  CHECK-NEXT: TEXT      on the line after the previous match
  CHECK-SAME: TEXT      further on the line of the previous match
  CHECK-NOT: TEXT       not between the matches around it
  //! error[ID] TEXT    `tdslc check` reports ID on this line, TEXT being part
                        of the message; `error[ID]@-1` means the line before.
                        All errors and warnings of a file must be announced.
  needs: FEATURE ...    skipped where a feature is missing

In CHECK text `{{...}}` is a regular expression, `[[N:...]]` names what it
matches and `[[N]]` asks for it again; runs of blanks are equal. A file of
frontend/ok without any of these must pass `tdslc check` in silence."""
import os
import re

RUN = re.compile(r"(?://|#|;)\s*RUN(?:\[(\d+)\])?(?: (\w+))?:\s*(.*)")
NEEDS = re.compile(r"(?://|#|;)\s*needs:\s*(.*)")
EXPECT = re.compile(r"//!\s*(error|warning)\[(\w+)\](?:@([+-]\d+))?\s*(.*)")
REPORT = re.compile(r"^(.*?):(\d+):(\d+): (error|warning)\[(\w+)\]: (.*)$")
PIECE = re.compile(r"\{\{(.*?)\}\}|\[\[(\w+):(.*?)\]\]|\[\[(\w+)\]\]")


class Failure(Exception):
    pass


def pattern(text, names):
    """The regular expression of one CHECK text."""
    out, last = [], 0
    fresh = set()

    def literal(piece):
        return r"[ \t]+".join(re.escape(p) for p in re.split(r"[ \t]+", piece))

    for m in PIECE.finditer(text):
        out.append(literal(text[last:m.start()]))
        last = m.end()
        if m.group(1) is not None:
            out.append("(?:%s)" % m.group(1))
        elif m.group(2):
            out.append("(?P<%s>%s)" % (m.group(2), m.group(3)))
            fresh.add(m.group(2))
        elif m.group(4) in fresh:
            out.append("(?P=%s)" % m.group(4))
        elif m.group(4) in names:
            out.append(re.escape(names[m.group(4)]))
        else:
            raise Failure("CHECK uses [[%s]] before it is set" % m.group(4))
    out.append(literal(text[last:]))
    return re.compile("".join(out))


def directives(text, prefix):
    out = []
    wanted = re.compile(r"(?://|#|;)\s*%s(|-NEXT|-NOT|-SAME):\s*(.*?)\s*$"
                        % re.escape(prefix))
    for number, line in enumerate(text.split("\n"), 1):
        m = wanted.search(line)
        if m:
            out.append((number, m.group(1), m.group(2)))
    return out


def check_output(text, output, prefix):
    """Raises Failure with the directive that found no match."""
    names, position, nots = {}, 0, []

    def refuse_between(end):
        for number, rx in nots:
            m = rx.search(output, position, end)
            if m:
                raise Failure("line %d: %s-NOT matches %r"
                              % (number, prefix, m.group(0)))
        nots.clear()

    for number, kind, body in directives(text, prefix):
        rx = pattern(body, names)
        if kind == "-NOT":
            nots.append((number, rx))
            continue
        start, end = position, len(output)
        if kind == "-NEXT":
            start = output.find("\n", position) + 1
            if start == 0:
                start = len(output)
            end = output.find("\n", start)
        elif kind == "-SAME":
            end = output.find("\n", position)
        end = len(output) if end < 0 else end
        m = rx.search(output, start, end)
        if not m:
            near = output[start:start + 400]
            raise Failure("line %d: %s%s: %s\nfinds no match after:\n%s"
                          % (number, prefix, kind, body, near))
        refuse_between(m.start())
        names.update({k: v for k, v in m.groupdict().items()})
        position = m.end()
    refuse_between(len(output))


def expectations(text):
    """{(line, kind, id): [message part, ...]}"""
    out = {}
    for number, line in enumerate(text.split("\n"), 1):
        for piece in re.split(r"(?=//!)", line):
            m = EXPECT.match(piece)
            if m:
                key = (number + int(m.group(3) or 0), m.group(1), m.group(2))
                out.setdefault(key, []).append(m.group(4).strip())
    return out


def reports(text):
    """[(file, line, kind, id, message)] in the text form of diagnostics."""
    out = []
    for line in text.split("\n"):
        m = REPORT.match(line)
        if m:
            out.append((m.group(1), int(m.group(2)), m.group(4), m.group(5),
                        m.group(6)))
    return out


def check_expectations(expected, found):
    out, seen = [], {}
    for _, line, kind, ident, message in found:
        seen.setdefault((line, kind, ident), []).append(message)
    for key in sorted(set(expected) | set(seen)):
        want, got = expected.get(key, []), seen.get(key, [])
        if len(want) != len(got):
            out.append("line %d: %s[%s] expected %d times, reported %d times"
                       % (key + (len(want), len(got))))
        for part in want:
            if part and got and not any(part in g for g in got):
                out.append("line %d: %s[%s] does not say %r but %r"
                           % (key + (part, got[0])))
    if out:
        raise Failure("\n".join(out))


def is_file_test(path, text):
    return bool(RUN.search(text) or EXPECT.search(text)
                or "/frontend/ok/" in path)


def run_file(env, path):
    """One file test; returns (status, detail)."""
    with open(path, encoding="utf-8", errors="surrogateescape",
              newline="") as f:
        text = f.read()
    needs = NEEDS.search(text)
    if needs:
        for feature in needs.group(1).split():
            if not env.has(feature):
                return "skip", "needs " + feature
    runs = RUN.findall(text)
    expected = expectations(text)
    try:
        if expected or not runs:
            code, out = env.tdslc(["check", path])
            if expected:
                check_expectations(expected, reports(out))
                errors = any(k[1] == "error" for k in expected)
                if code != (1 if errors else 0):
                    raise Failure("tdslc check exits with %d" % code)
            elif code != 0 or out.strip():
                raise Failure("tdslc check exits with %d\n%s" % (code, out))
        outputs = {}
        with env.scratch() as folder:
            for status, prefix, command in runs:
                for key, value in (("%s", path), ("%D", env.root),
                                   ("%S", os.path.dirname(path)),
                                   ("%t", os.path.join(folder, "t"))):
                    command = command.replace(key, value)
                code, out = env.shell(command, folder)
                if code != int(status or 0):
                    raise Failure("exit status %d of: %s\n%s"
                                  % (code, command, out))
                key = prefix or "CHECK"
                outputs[key] = outputs.get(key, "") + out
        for prefix, output in outputs.items():
            check_output(text, output, prefix)
    except Failure as failure:
        return "fail", str(failure)
    return "pass", ""
