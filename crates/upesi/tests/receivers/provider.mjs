// A certified OpenID provider for tests: client credentials, device codes, and authorization codes
// with PKCE. Prints its issuer. A browser is logged in as "anna" at once.
// Each line of standard input is a device code that the person "anna" enters and accepts.
import { createServer } from 'node:http';
import { createInterface } from 'node:readline';
import Provider from 'oidc-provider';

const { audience, lifetime, consoles = [], port = 0 } = JSON.parse(process.argv[2]);
const DEVICE = 'urn:ietf:params:oauth:grant-type:device_code';
const machine = (id) => ({
  client_id: id,
  client_secret: `secret of ${id}: %&`,
  grant_types: ['client_credentials'],
  redirect_uris: [],
  response_types: [],
});
const server = createServer();
await new Promise((resolve) => server.listen(port, '127.0.0.1', resolve));
const issuer = `http://127.0.0.1:${server.address().port}`;
const provider = new Provider(issuer, {
  clients: [
    machine('payerfsp'),
    machine('payeefsp'),
    machine('payerbank'),
    machine('payeebank'),
    machine('robot'),
    {
      client_id: 'upesi',
      token_endpoint_auth_method: 'none',
      grant_types: [DEVICE, 'refresh_token'],
      redirect_uris: [],
      response_types: [],
    },
    ...consoles.map((address) => ({
      client_id: 'console',
      token_endpoint_auth_method: 'none',
      grant_types: ['authorization_code'],
      redirect_uris: [address],
      response_types: ['code'],
    })),
  ],
  pkce: { required: () => true },
  interactions: { url: (_context, interaction) => `/enter/${interaction.uid}` },
  features: {
    devInteractions: { enabled: false },
    clientCredentials: { enabled: true },
    deviceFlow: { enabled: true },
    revocation: { enabled: true },
    resourceIndicators: {
      enabled: true,
      defaultResource: () => audience,
      useGrantedResource: () => true,
      getResourceServerInfo: () => ({
        audience,
        scope: 'fspiop',
        accessTokenFormat: 'jwt',
        accessTokenTTL: lifetime,
        jwt: { sign: { alg: 'RS256' } },
      }),
    },
  },
  issueRefreshToken: (_context, client) => client.clientId !== 'console',
  rotateRefreshToken: true,
  extraTokenClaims: (_context, token) => {
    const name = token.accountId ?? token.clientId;
    const groups = { anna: ['hub-admins'], robot: ['hub-viewers'] }[name] ?? [];
    return { preferred_username: name, groups };
  },
  findAccount: (_context, id) => ({ accountId: id, claims: async () => ({ sub: id }) }),
});
const answer = provider.callback();
server.on('request', async (request, response) => {
  if (!request.url.startsWith('/enter/')) return answer(request, response);
  const { params, prompt } = await provider.interactionDetails(request, response);
  const grant = new provider.Grant({ accountId: 'anna', clientId: params.client_id });
  grant.addOIDCScope('openid');
  grant.addResourceScope(audience, 'fspiop');
  const result =
    prompt.name === 'login'
      ? { login: { accountId: 'anna' } }
      : { consent: { grantId: await grant.save() } };
  await provider.interactionFinished(request, response, result, { mergeWithLastSubmission: true });
});

createInterface({ input: process.stdin }).on('line', async (line) => {
  const code = await provider.DeviceCode.findByUserCode(line.replace(/-/g, ''));
  const grant = new provider.Grant({ accountId: 'anna', clientId: code.clientId });
  grant.addResourceScope(audience, 'fspiop');
  code.accountId = 'anna';
  code.grantId = await grant.save();
  code.authTime = Math.floor(Date.now() / 1000);
  code.scope = 'fspiop';
  code.resource = audience;
  await code.save();
});
console.log(issuer);
