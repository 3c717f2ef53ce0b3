"""The report page: a study as one document, and the document as one HTML file."""
