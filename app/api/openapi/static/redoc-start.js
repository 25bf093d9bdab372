// Draws the contract with Redoc. In a file of its own: the page's policy allows no script within it.
Redoc.init("openapi.json", { hideDownloadButton: false, nativeScrollbars: true }, document.getElementById("docs"));
