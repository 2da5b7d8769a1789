/** The apps of the gateway: what needs attention first, then each app as a tile, and ways to get another. */
import { useMemo, useState } from 'preact/hooks';
import type { AppRecord } from '../../protocol/answer-types.ts';
import { route } from '../../protocol/http/addresses.ts';
import { hrefOf } from '../address.ts';
import { chats } from '../app/views.ts';
import { isOwners, makesApps, manages, useGateway } from '../gateway-state.tsx';
import { Button, Empty, Loading, Problem, State, Tile } from '../ui/parts.tsx';
import { plural } from '../words.ts';
import { Attention } from './attention.tsx';
import { FirstAccount } from './first-account.tsx';
import { NewApp } from './new-app.tsx';

/** Drawn at once; more follow when they are asked for or looked for. */
const SHOWN = 120;
/** More than these are shown by their names alone. */
const MANY = 30;

export function Home() {
  const state = useGateway();
  const { apps, error, reload, isShared } = state;
  const [sought, setSought] = useState('');
  const [isMaking, setMaking] = useState(false);
  const [shown, setShown] = useState(SHOWN);
  const found = useMemo(() => matching(apps ?? [], sought), [apps, sought]);
  if (!apps) return error ? <Problem error={error} retry={reload} /> : <Loading />;
  return (
    <>
      <header class="heading">
        <h1>Apps</h1>
        {apps.length > 0 && <span class="count">{apps.length}</span>}
        <span class="line heading-end">
          {apps.length > 8 && (
            <input
              type="search"
              aria-label="Find an app"
              placeholder="Find an app"
              value={sought}
              onInput={({ currentTarget }) => setSought(currentTarget.value)}
            />
          )}
          {makesApps(state) && (
            <Button kind="primary" onClick={() => setMaking(true)}>
              New app
            </Button>
          )}
        </span>
      </header>
      {isOwners(state) && !state.hasPeople && <FirstAccount />}
      {isOwners(state) && <Attention apps={apps} />}
      {apps.length === 0 ? (
        <NoApps />
      ) : (
        <ul class={apps.length > MANY ? 'cards many' : 'cards'} aria-label="Apps">
          {found.slice(0, shown).map((app) => (
            <AppCard key={app.id} app={app} />
          ))}
        </ul>
      )}
      {apps.length > 0 && found.length === 0 && <Empty title={`No app matches “${sought}”`} />}
      {found.length > shown && (
        <p class="more">
          <Button onClick={() => setShown(shown + 4 * SHOWN)}>{plural(found.length - shown, 'app')} more</Button>
        </p>
      )}
      {isShared && <Shared />}
      {isMaking && <NewApp onClose={() => setMaking(false)} />}
    </>
  );
}

/** Every word is in the app's name, id or description. */
function matching(apps: readonly AppRecord[], sought: string): readonly AppRecord[] {
  const words = sought.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return apps;
  return apps.filter(({ id, name, description = '' }) => {
    const text = `${name} ${id} ${description}`.toLowerCase();
    return words.every((word) => text.includes(word));
  });
}

function NoApps() {
  const state = useGateway();
  if (!makesApps(state))
    return (
      <Empty title="No apps yet">
        {state.person !== null && <p>Nobody has shared one with you. Ask who invited you.</p>}
      </Empty>
    );
  return (
    <Empty title="No apps yet">
      <p>An app is a folder: a manifest, handlers, a page. Start from a template with “New app”, or push your own:</p>
      <pre>svc new hello{'\n'}svc push hello</pre>
    </Empty>
  );
}

/** Why only the apps are here. */
function Shared() {
  const { consoleAddress, hasSessions } = useGateway();
  if (!hasSessions)
    return (
      <section class="card shared">
        <h2>The apps that you may use</h2>
        <p>
          The server at <code>{location.host}</code> decides what you may do here. Ask those who run it for other apps,
          or to do more with these.
        </p>
      </section>
    );
  return (
    <section class="card shared">
      <h2>Apps only at this address</h2>
      <p>
        All pages at <code>{location.host}</code> share one origin, so a page of one app could do whatever this page
        can. A browser signed in here can therefore only open and use the apps. It cannot upload, publish or remove
        them, read their databases and logs, switch automations, or make a backup.
      </p>
      <p>
        To administer the gateway and to give each app a separate origin, open <code>{consoleAddress}</code> on its
        machine. For other machines, set <code>appDomain</code> in the configuration. If <code>pageOrigins</code> is{' '}
        <code>"shared"</code> there, remove it.
      </p>
      <p>
        The <code>svc</code> command works from anywhere.
      </p>
    </section>
  );
}

function AppCard({ app }: { app: AppRecord }) {
  const state = useGateway();
  const isManaged = manages(state, app);
  const counts = [plural(app.queries + app.actions, 'tool')];
  if (app.automations > 0) counts.push(plural(app.automations, 'automation'));
  if (app.public) counts.push('open to visitors');
  const page = route`/svc/${app.id}/`;
  return (
    <li class="card app-card">
      <Tile {...app} />
      <div class="app-title">
        <h2>
          <a href={isManaged ? hrefOf(['apps', app.id]) : page}>{app.name}</a>
        </h2>
        <p class="hint">
          <code>{app.id}</code> {app.version && `v${app.version}`}
        </p>
        {app.status !== 'active' && <State state={app.status} />}
      </div>
      <p class="app-text">{app.description}</p>
      <div class="app-foot">
        <p class="hint app-counts" {...(app.public && { title: `Visitors may use: ${app.public.join(', ')}` })}>
          {counts.join(' · ')}
        </p>
        {app.activeVersion !== null && (
          <span class="app-links">
            {!isManaged && app.queries + app.actions > 0 && (
              <a href={hrefOf(['apps', app.id, 'tools'])} aria-label={`Tools of ${app.name}`}>
                Tools
              </a>
            )}
            {chats(app) && (
              <a class="app-chat" href={hrefOf(['apps', app.id, 'chat'])} aria-label={`Chat about ${app.name}`}>
                Chat
              </a>
            )}
            <a class="app-open" href={page} aria-label={`Open ${app.name}`}>
              Open
            </a>
          </span>
        )}
      </div>
    </li>
  );
}
