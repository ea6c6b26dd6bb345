// What axe finds in mdBook's own pages: code and tables that are wider than the page must have the keyboard, and the label that toggles the table of
// contents is a button.
document.querySelectorAll("pre > code, .table-wrapper").forEach((wide) => wide.setAttribute("tabindex", "0"));
document.getElementById("mdbook-sidebar-toggle")?.setAttribute("role", "button");
