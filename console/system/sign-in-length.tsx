/** How long browsers stay signed in: shown, and changed unless the configuration says it. */
import { gateway } from '../gateway.ts';
import { usePolled } from '../polled.ts';
import { notify } from '../ui/notice.tsx';
import { Card, Loading, Problem } from '../ui/parts.tsx';
import { plural } from '../words.ts';
import { useWork } from '../work.ts';

const DAY = 24;
/** In hours. */
const CHOICES = [12, DAY, 7 * DAY, 30 * DAY, 90 * DAY];

const shown = (hours: number): string => (hours % DAY === 0 ? plural(hours / DAY, 'day') : plural(hours, 'hour'));

export function SignInView() {
  const read = (signal: AbortSignal) => gateway.call('GET /svc/_session/length', {}, { signal });
  const { value, error, reload } = usePolled(read, 'sign-in length', 0);
  const work = useWork();
  if (!value) return error ? <Problem error={error} retry={reload} /> : <Loading />;
  const { hours, setBy } = value;
  const choose = (chosen: number) =>
    work.run(async () => {
      await gateway.call('PUT /svc/_session/length', { body: { hours: chosen } });
      notify(`Browsers that sign in from now on stay so for ${shown(chosen)}.`);
      reload();
    });
  const all = CHOICES.includes(hours) ? CHOICES : [...CHOICES, hours].sort((a, b) => a - b);
  return (
    <Card title="Sign-in">
      <div class="stack">
        <fieldset class="knob" disabled={work.isBusy || setBy === 'configuration'}>
          <legend class="label">A browser stays signed in for</legend>
          <div class="choices">
            {all.map((choice) => (
              <label key={choice}>
                <input
                  type="radio"
                  name="sign-in-hours"
                  value={String(choice)}
                  checked={choice === hours}
                  onChange={() => void choose(choice)}
                />
                <span>{shown(choice)}</span>
              </label>
            ))}
          </div>
        </fieldset>
        <Problem error={work.error} />
        {setBy === 'configuration' && (
          <p class="hint">
            It is in the configuration file (<code>signInHours</code>): change it there, and start the gateway again.
          </p>
        )}
        <p class="hint">
          It counts for the next sign-in of each browser. Those that are signed in stay so until the time that they got;{' '}
          <code>svc token rotate</code> ends them all at once.
        </p>
        <p class="hint">
          There are no accounts yet: whoever signs in here is the administrator. Give others a token (
          <code>svc token create</code>), or make parts of an app public.
        </p>
      </div>
    </Card>
  );
}
