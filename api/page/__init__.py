"""The page in the browser: static files beside the API, of which it calls only the public one."""
