// A certified OpenID provider for tests: client credentials and device codes. Prints its issuer.
// Each line of standard input is a device code that the person "anna" enters and accepts.
import { createServer } from 'node:http';
import { createInterface } from 'node:readline';
import Provider from 'oidc-provider';

const { audience, lifetime } = JSON.parse(process.argv[2]);
const DEVICE = 'urn:ietf:params:oauth:grant-type:device_code';
const machine = (id) => ({
  client_id: id,
  client_secret: `secret of ${id}: %&`,
  grant_types: ['client_credentials'],
  redirect_uris: [],
  response_types: [],
});
const server = createServer();
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
const issuer = `http://127.0.0.1:${server.address().port}`;
const provider = new Provider(issuer, {
  clients: [
    machine('payerfsp'),
    machine('payeefsp'),
    machine('robot'),
    {
      client_id: 'upesi',
      token_endpoint_auth_method: 'none',
      grant_types: [DEVICE, 'refresh_token'],
      redirect_uris: [],
      response_types: [],
    },
  ],
  features: {
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
  issueRefreshToken: () => true,
  rotateRefreshToken: true,
  extraTokenClaims: (_context, token) => {
    const name = token.accountId ?? token.clientId;
    const groups = { anna: ['hub-admins'], robot: ['hub-viewers'] }[name] ?? [];
    return { preferred_username: name, groups };
  },
  findAccount: (_context, id) => ({ accountId: id, claims: async () => ({ sub: id }) }),
});
server.on('request', provider.callback());

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
