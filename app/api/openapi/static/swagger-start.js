// Draws the contract with Swagger UI. In a file of its own: the page's policy allows no script within it.

// The page asks for an API key in one way only. The dialog of all ways opens at the last one, and a key pasted there
// would travel in a header for signatures.
const KEPT = "apiKey";

function withOneWayToAuthorize(response) {
  if (!response.ok || !response.url.endsWith("/openapi.json")) return response;
  const contract = JSON.parse(response.text);
  contract.components.securitySchemes = { [KEPT]: contract.components.securitySchemes[KEPT] };
  for (const path of Object.values(contract.paths)) {
    for (const operation of Object.values(path)) {
      if (operation.security) operation.security = operation.security.filter((way) => KEPT in way);
    }
  }
  response.text = JSON.stringify(contract);
  return response;
}

window.ui = SwaggerUIBundle({
  url: "openapi.json",
  dom_id: "#docs",
  deepLinking: true,
  validatorUrl: null,
  responseInterceptor: withOneWayToAuthorize,
  presets: [SwaggerUIBundle.presets.apis],
  layout: "BaseLayout",
});
