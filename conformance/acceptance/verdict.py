"""Counts what Go's tests said: verdict.py NAME LOG. Fails where a test failed for another reason than those that are known."""
import re
import sys

# What the lab cannot have, by words that the log of a failed test holds.
KNOWN = {
    "over SSH": "needs a shell on the host",
    "audiences: property is not defined": "wants an option of a later release",
    "standard_24.04-2_amd64.tar": "needs containers",
}

name, text = sys.argv[1], open(sys.argv[2], errors="replace").read()
results = re.findall(r"^\s*--- (PASS|FAIL|SKIP): (\S+)", text, re.M)
failed = [test for result, test in results if result == "FAIL"]
# A test that failed only because a part of it did is told by its parts.
leaves = [test for test in failed if not any(other.startswith(test + "/") for other in failed)]
blocks = {}
for block in re.split(r"^=== (?:RUN|CONT|NAME)\s+", text, flags=re.M)[1:]:
    test, _, rest = block.partition("\n")
    blocks[test.strip()] = blocks.get(test.strip(), "") + re.split(r"^=== |^--- ", rest, flags=re.M)[0]

reasons, strange = {}, []
for test in leaves:
    why = next((why for words, why in KNOWN.items() if words in blocks.get(test, "")), None)
    if why:
        reasons[why] = reasons.get(why, 0) + 1
    else:
        strange.append(test)
passed = sum(result == "PASS" for result, _ in results)
skipped = sum(result == "SKIP" for result, _ in results)
known = "".join(f", {count} {why}" for why, count in reasons.items())
print(f"{name}: {passed} passed, {skipped} skipped{known}, {len(strange)} failed")
for test in strange:
    print(f"  {test}\n{blocks.get(test, '')[:2000]}")
sys.exit(bool(strange) or not results)
