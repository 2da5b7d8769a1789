/** Signs in with the providers that the configuration names, and links accounts of theirs. */
import { useEffect, useState } from 'preact/hooks';
import type { Received, RowIn } from '../../protocol/routes/api.ts';
import { gateway } from '../gateway.ts';
import { goToProvider, type Session } from '../session.ts';
import { notify } from '../ui/notice.tsx';
import { Button, Card, Confirm, Problem } from '../ui/parts.tsx';
import { ago } from '../words.ts';
import { useWork } from '../work.ts';
import { fresh } from './account/fresh.ts';

type Person = RowIn<'GET /svc/_people'>;
type Providers = Session['ways']['providers'];

type ButtonsProps = { providers: Providers; verb: string; sent: Parameters<typeof goToProvider>[1] };

/** A button for each provider; it leaves the console. */
export function ProviderButtons({ providers, verb, sent }: ButtonsProps) {
  const { isBusy, error, run } = useWork();
  if (providers.length === 0) return null;
  return (
    <div class="stack">
      {providers.map(({ name }) => (
        <Button key={name} disabled={isBusy} onClick={() => void run(() => fresh(() => goToProvider(name, sent)))}>
          {verb} {name}
        </Button>
      ))}
      <Problem error={error} />
    </div>
  );
}

/** Says why a provider let nobody in, and what to do. */
export function ProviderFailed({ error, onDone }: { error: Error; onDone: () => void }) {
  return (
    <main class="signin">
      <div class="card stack">
        <h1>The sign-in did not work</h1>
        <Problem error={error} />
        <div class="line">
          <Button onClick={onDone}>Continue</Button>
        </div>
      </div>
    </main>
  );
}

type Identity = Received<'GET /svc/_people/:pid/identities'>[number];
type CardProps = { person: Person; providers: Providers; onChanged: () => void };

/** The accounts of providers by which somebody signs in. */
export function ProvidersCard({ person, providers, onChanged }: CardProps) {
  const [linked, setLinked] = useState<Identity[]>();
  const [ending, setEnding] = useState<Identity>();
  const { error, run } = useWork();
  const params = { pid: 'me' };
  const read = () => run(async () => setLinked(await gateway.call('GET /svc/_people/:pid/identities', { params })));
  useEffect(() => void read(), [person.id]);
  const others = providers.filter(({ name }) => linked?.every(({ provider }) => provider !== name));
  if (providers.length === 0 && linked?.length === 0) return null;
  return (
    <Card title="Sign-in by providers">
      <div class="stack">
        {linked?.map((identity) => (
          <div class="line" key={identity.id}>
            <span>
              <strong>{nameOf(identity)}</strong>
              {identity.email !== null && `: ${identity.email}`}, last used {ago(identity.lastUsedAt)}
            </span>
            <Button kind="link" onClick={() => setEnding(identity)}>
              Unlink {nameOf(identity)}
            </Button>
          </div>
        ))}
        <ProviderButtons providers={others} verb="Link" sent={{ link: true, view: '#/account' }} />
        <Problem error={error} />
      </div>
      {ending && (
        <Confirm
          title={`Unlink ${nameOf(ending)}?`}
          verb="Unlink"
          onClose={() => setEnding(undefined)}
          onDone={async () => {
            const { id } = ending;
            const sent = { params: { ...params, identity: id } };
            await fresh(() => gateway.call('DELETE /svc/_people/:pid/identities/:identity', sent));
            notify(`You sign in by ${nameOf(ending)} no more.`);
            await read();
            onChanged();
          }}
        >
          You sign in by it no more. You can link it again.
        </Confirm>
      )}
    </Card>
  );
}

const nameOf = ({ provider }: Identity): string => provider ?? 'the proxy';
