/** The settings of an app's page: what its manifest offers, and what is chosen. */
import { useRef, useState } from 'preact/hooks';
import type { Received } from '../../../protocol/routes/api.ts';
import type { GatewayError } from '../../gateway.ts';
import { gateway } from '../../gateway.ts';
import { usePolled } from '../../polled.ts';
import { Button, Card, Loading, Problem } from '../../ui/parts.tsx';
import type { AppDetail } from '../views.ts';

type Settings = Received<'GET /svc/_apps/:id/settings'>;
type Knob = Settings['knobs'][number];

export function Knobs({ app }: { app: AppDetail }) {
  const { id } = app;
  const read = (signal: AbortSignal) => gateway.call('GET /svc/_apps/:id/settings', { params: { id } }, { signal });
  const { value, error, reload } = usePolled(read, id, 0);
  if (value && value.knobs.length === 0) return null;
  return (
    <Card title="Settings of the page">
      {value ? <Form app={id} read={value} /> : error ? <Problem error={error} retry={reload} /> : <Loading />}
    </Card>
  );
}

function Form({ app, read: { knobs, prefs = {}, settings: stored } }: { app: string; read: Settings }) {
  const [settings, setSettings] = useState(stored);
  const [said, setSaid] = useState('');
  const [error, setError] = useState<GatewayError>();
  const sending = useRef<Promise<unknown>>(Promise.resolve());
  const wanted = useRef(stored);

  /** One after the other, so that the last choice is the one that is stored. */
  const choose = (key: string, value: string | undefined) => {
    const { [key]: _before, ...others } = wanted.current;
    const next = value === undefined ? others : { ...others, [key]: value };
    wanted.current = next;
    setSettings(next);
    setSaid('');
    sending.current = sending.current.then(async () => {
      if (wanted.current !== next) return;
      try {
        await gateway.call('PUT /svc/_apps/:id/settings', { params: { id: app }, body: next });
        setError(undefined);
        setSaid('Saved. Open pages show it after a reload.');
      } catch (problem) {
        setError(problem as GatewayError);
      }
    });
  };

  return (
    <div class="stack">
      {knobs.map((knob) => (
        <KnobField
          key={knob.key}
          knob={knob}
          chosen={settings[knob.key]}
          otherwise={prefs[knob.key] ?? knob.default}
          onChoose={(value) => choose(knob.key, value)}
        />
      ))}
      <Problem error={error} />
      <p class="hint" role="status">
        {said}
      </p>
    </div>
  );
}

type KnobFieldProps = {
  knob: Knob;
  chosen: unknown;
  otherwise: unknown;
  onChoose: (value: string | undefined) => void;
};

function KnobField({ knob: { key, label, type, options }, chosen, otherwise, onChoose }: KnobFieldProps) {
  const shown = chosen ?? otherwise;
  return (
    <fieldset class="knob">
      <legend class="label">{label}</legend>
      <div class="line">
        <div class="choices">
          {options.map(({ value, label: text }) => (
            <label key={value}>
              <input
                type="radio"
                name={`knob-${key}`}
                value={value}
                checked={value === shown}
                onChange={() => onChoose(value)}
              />
              {type === 'swatch' && CSS.supports('color', value) && (
                <span class="swatch" style={{ background: value }} aria-hidden="true" />
              )}
              <span>{text}</span>
            </label>
          ))}
        </div>
        {chosen === undefined ? (
          <span class="hint">as by default</span>
        ) : (
          <Button kind="link" aria-label={`Use default of ${label}`} onClick={() => onChoose(undefined)}>
            Use default
          </Button>
        )}
      </div>
    </fieldset>
  );
}
