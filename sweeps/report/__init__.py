"""The report of a sweep: one HTML file that needs no network, and its figures for papers.

Reading guide: `source` reads the sweep and `question` says what is asked of it; `findings` puts the
answer into words; `again` simulates some settings anew, for their curves; `page` puts all into the
file. What the browser does is in `static`: small scripts around plotly.js.
"""
