// The script of the report page. The page is complete without it: it adds a theme switch, opens what
// a link leads to, and shows long series with zoom and cursor. It builds no content from names.
'use strict';
