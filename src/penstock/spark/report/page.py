"""The style sheet of the report."""

from typing import Final

STYLE: Final = """
:root { --ink:#22303c; --faint:#6b7a88; --line:#e4e9ee; --paper:#fff; --ground:#f3f6f9;
  --kept:#2a9d76; --broken:#c8413b; --unknown:#8896a3; }
* { box-sizing:border-box }
body { margin:0; background:var(--ground); color:var(--ink);
  font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif }
main { max-width:1040px; margin:0 auto; padding:32px 20px 48px }
header { margin-bottom:20px }
.brand { color:var(--faint); letter-spacing:.14em; text-transform:uppercase; font-size:12px }
h1 { font-size:28px; margin:2px 0 4px; display:flex; gap:14px; align-items:center;
  flex-wrap:wrap }
h2 { font-size:17px; margin:0 0 6px }
.note, footer { color:var(--faint); font-size:13px; margin:0 0 8px }
.badge { font-size:13px; font-weight:600; color:#fff; padding:3px 12px; border-radius:99px }
.badge.kept { background:var(--kept) } .badge.broken { background:var(--broken) }
.badge.unknown { background:var(--unknown) }
.tiles { display:grid; grid-template-columns:repeat(auto-fit,minmax(150px,1fr)); gap:12px }
.tile, .card { background:var(--paper); border:1px solid var(--line); border-radius:10px }
.tile { padding:14px 16px } .tile b { display:block; font-size:24px; line-height:1.2 }
.tile span { color:var(--faint); font-size:13px }
.card { padding:18px 20px; margin-top:16px }
.promises { list-style:none; margin:0; padding:0 }
.promises li { display:grid; grid-template-columns:26px 1fr 1fr; gap:8px; padding:6px 0;
  border-top:1px solid var(--line) }
.promises li:first-child { border-top:0 }
.promises i { font-style:normal; font-weight:700 } .promises b { font-weight:600 }
.promises span { color:var(--faint) }
.kept i { color:var(--kept) } .broken i { color:var(--broken) } .unknown i { color:var(--unknown) }
.broken b { color:var(--broken) }
.words { margin:0; padding-left:20px } .words li { margin:3px 0; overflow-wrap:anywhere }
.advice { margin:0; padding-left:20px } .advice li { margin:8px 0; overflow-wrap:anywhere }
.advice .share { color:var(--broken); font-weight:600 } .advice small { color:var(--faint) }
.chart svg { width:100%; height:auto; display:block }
.chart svg text { font-family:inherit !important }
.scroll { overflow-x:auto }
table { border-collapse:collapse; width:100%; font-size:13px;
  font-variant-numeric:tabular-nums }
th { text-align:left; color:var(--faint); font-weight:600; white-space:nowrap }
th, td { padding:5px 14px 5px 0; border-bottom:1px solid var(--line); vertical-align:top }
td:first-child { font-weight:600 }
tbody tr:last-child td { border-bottom:0 }
code { background:var(--ground); border-radius:4px; padding:1px 5px; font-size:12px }
footer { margin-top:22px }
@media print { body { background:#fff } .card, .tile { break-inside:avoid } }
"""
