// Mounts a gateway in an Express server with a sign-in and sessions of its own, which says who calls:
// node examples/embedding/express.js <dataDir> [port]
import { randomBytes, timingSafeEqual } from 'node:crypto';
import express from 'express';
import session from 'express-session';
import { buildGateway } from 'svc-gateway';

const [dataDir = '.svc', port = '3000'] = process.argv.slice(2);

// A real host has its people, and how they prove who they are, in a store of its own.
const people = new Map([
  ['ada', { id: 'u1', name: 'Ada', email: 'ada@example.org', role: 'owner' }],
  ['bob', { id: 'u2', name: 'Bob', role: 'member', apps: { notes: 'editor', todos: 'viewer' } }],
]);
const password = process.env.SIGN_IN_PASSWORD ?? randomBytes(9).toString('base64url');

const gateway = buildGateway({
  dataDir,
  auth: false,
  // `raw` is the request that Express handed over, with the session that it has put there.
  identify: ({ raw }) => people.get(raw.session.person) ?? null,
});
await gateway.start();

const FORM = `<!doctype html><title>Sign in</title><form method="post" action="/sign-in">
<label>Name <input name="name"></label> <label>Password <input name="password" type="password"></label>
<button>Sign in</button></form>`;

const app = express();
app.use(
  session({
    // A new one each time ends all sessions with the process. Set `secure: true` behind HTTPS.
    secret: randomBytes(32).toString('hex'),
    cookie: { httpOnly: true, sameSite: 'lax' },
    resave: false,
    saveUninitialized: false,
  }),
);
app.get('/', (req, res) => {
  const person = people.get(req.session.person);
  res.send(person ? `<p>${person.name}</p><a href="/svc/">Apps</a>` : FORM);
});
app.post('/sign-in', express.urlencoded({ extended: false }), (req, res, next) => {
  const { name = '', password: given = '' } = req.body ?? {};
  const [one, other] = [Buffer.from(String(given)), Buffer.from(password)];
  if (!people.has(name) || one.length !== other.length || !timingSafeEqual(one, other)) {
    res.status(401).send(FORM);
    return;
  }
  // A new session: nobody can have planted its id.
  req.session.regenerate((error) => {
    if (error) return next(error);
    req.session.person = name;
    res.redirect(303, '/');
  });
});
app.post('/sign-out', (req, res, next) => {
  req.session.destroy((error) => (error ? next(error) : res.redirect(303, '/')));
});
app.use((req, res, next) => {
  // Whoever opens a page signs in first; everything else is answered 401 by the gateway.
  if (req.get('sec-fetch-mode') === 'navigate' && !people.has(req.session.person)) res.redirect(303, '/');
  else if (!gateway.handle(req, res)) next();
});

const server = app.listen(Number(port), '127.0.0.1', async (error) => {
  if (error) {
    console.error(error.code === 'EADDRINUSE' ? `Port ${port} is taken: name another one.` : error.message);
    process.exitCode = 1;
    await stop();
    return;
  }
  console.log(`http://127.0.0.1:${server.address().port}`);
  console.log(`Sign in as ada or bob with the password ${password}.`);
});

async function stop() {
  await gateway.stop();
  server.close();
  server.closeAllConnections();
}
process.once('SIGTERM', stop).once('SIGINT', stop);
