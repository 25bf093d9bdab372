// Runs oidc-provider with the settings that a file has as JSON. People sign in with any password.
import { readFileSync } from "node:fs";

import Provider from "oidc-provider";

const { issuer, keys, clients, roles, algorithm, seconds, ahead, notBefore } = JSON.parse(
  readFileSync(process.argv[2], "utf-8"),
);

const now = Date.now;
Date.now = () => now() + ahead * 1000; // the provider has no other clock

const scope = "Changes.Send";
const provider = new Provider(issuer, {
  clients,
  jwks: { keys },
  cookies: { keys: ["a key only for tests"] },
  pkce: { required: () => true },
  scopes: ["openid", scope],
  claims: { openid: ["sub", "roles"] },
  findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id, roles: roles[id] }) }),
  ttl: { ClientCredentials: seconds, IdToken: seconds, AccessToken: 300, Grant: 300, Interaction: 300, Session: 300 },
  formats: {
    customizers: {
      jwt: (_, token, { payload }) => {
        if (notBefore) payload.nbf = payload.iat;
      },
    },
  },
  features: {
    clientCredentials: { enabled: true },
    resourceIndicators: {
      enabled: true,
      defaultResource: () => undefined,
      getResourceServerInfo: (_, resource) => ({
        scope,
        audience: resource,
        accessTokenFormat: resource.startsWith("opaque:") ? "opaque" : "jwt",
        jwt: { sign: { alg: algorithm } },
      }),
    },
  },
});
provider.listen(new URL(issuer).port, "127.0.0.1");
