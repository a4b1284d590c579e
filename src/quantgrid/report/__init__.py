"""From verified records to a table, laws, plots and one page.

records -> table.csv, laws.csv -> answers, plots -> page.html.  Everything is a pure function of the
records that the plan wants: equal records give equal bytes.
"""
