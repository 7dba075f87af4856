"""The page: what a person looks at in a browser, served by the web service of the application."""
