# family: answers
# tries: text that means something to spreadsheets, browsers, terminals and XML
# witness: the verdict (that it is escaped is tested where it is written)
# %%
print("=HYPERLINK(\"http://x\")\t<script>alert(1)</script>\x1b]0;owned\x07\x00]]>\u202e")
def causal_pattern(scores):
    raise ValueError("=cmd|' /C calc'!A0 <img src=x onerror=alert(1)> \x1b[2J \x00 ]]>")
