/** The small parts that every view is made of: tiles, states, buttons, fields, dialogs, and what is said when nothing is there. */
import type { ButtonHTMLAttributes, ComponentChildren, VNode } from 'preact';
import { useEffect, useId, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { AppRecord } from '../../protocol/answer-types.ts';
import { addressOf } from '../../protocol/http/client.ts';
import { type Tone, toneOf } from '../../protocol/text/states.ts';
import { signedAddress } from '../bridge/page-key.ts';
import type { GatewayError } from '../gateway.ts';
import { hueOf } from '../words.ts';
import { useWork } from '../work.ts';

type Children = { children?: ComponentChildren };

type TileProps = Pick<AppRecord, 'id' | 'name'> & { icon?: true | undefined; activeVersion?: string | null };

/** A gateway that is busy may refuse a picture: it is asked for again so many times, first after so long, then after twice as long. */
const PICTURE_RETRIES = 6;
const PICTURE_RETRY_MS = 2000;

/** The picture of an app, or its letter in a colour of its own. */
export function Tile({ id, name, icon, activeVersion = null }: TileProps) {
  const address = useMemo(() => {
    const sent = { params: { id }, query: { version: activeVersion ?? undefined } };
    return icon && activeVersion ? signedAddress(addressOf('GET /svc/_apps/:id/icon', sent)) : null;
  }, [id, icon, activeVersion]);
  const letter = (
    <span class="tile" style={{ '--hue': hueOf(id) }} aria-hidden="true">
      {[...name][0]?.toUpperCase() ?? '?'}
    </span>
  );
  return address === null ? letter : <Picture key={address} address={address} letter={letter} />;
}

function Picture({ address, letter }: { address: string; letter: VNode }) {
  const [failures, setFailures] = useState(0);
  const [isBroken, setBroken] = useState(false);
  useEffect(() => {
    if (failures === 0 || failures > PICTURE_RETRIES) return;
    const again = setTimeout(() => setBroken(false), PICTURE_RETRY_MS * 2 ** (failures - 1));
    return () => clearTimeout(again);
  }, [failures]);
  const failed = () => {
    setBroken(true);
    setFailures((count) => count + 1);
  };
  return isBroken ? letter : <img class="tile" src={address} alt="" loading="lazy" decoding="async" onError={failed} />;
}

const TONES: Record<Tone, string> = { good: 'good', bad: 'bad', passing: 'warn', other: 'plain' };

/** How states of apps are shown; other states are shown as they are. */
const WORDS: Record<string, string> = { active: 'live', no_active_version: 'not published' };

/** A state is a coloured dot and a word; `text` replaces the word. */
export function State({ state, text }: { state: string; text?: string | undefined }) {
  return (
    <span class="state" data-tone={TONES[toneOf(state)]} data-state={state}>
      {text ?? WORDS[state] ?? state.replaceAll('_', ' ')}
    </span>
  );
}

type ButtonProps = ButtonHTMLAttributes<HTMLButtonElement> & { kind?: 'primary' | 'plain' | 'danger' | 'link' };

export function Button({ kind = 'plain', type = 'button', class: className = '', ...rest }: ButtonProps) {
  return <button type={type} class={`button ${kind} ${className}`} {...rest} />;
}

/** A label with what it labels, what it is for, and what is wrong with it. */
export function Field({
  label,
  hint,
  problem,
  children,
}: Children & { label: string; hint?: ComponentChildren; problem?: string | undefined }) {
  return (
    // biome-ignore lint/a11y/noLabelWithoutControl: the control is among the children.
    <label class="field">
      <span class="label">{label}</span>
      {children}
      {hint !== undefined && <span class="hint">{hint}</span>}
      {problem !== undefined && (
        <span class="problem" role="alert">
          {problem}
        </span>
      )}
    </label>
  );
}

/** Why something could not be read or done, in the gateway's words. */
export function Problem({ error, retry }: { error: Error | GatewayError | undefined; retry?: () => void }) {
  if (!error) return null;
  return (
    <p class="problem" role="alert">
      {error.message}{' '}
      {retry && (
        <Button kind="link" onClick={retry}>
          Try again
        </Button>
      )}
    </p>
  );
}

export function Card({
  children,
  class: className = '',
  title,
  aside,
}: Children & { class?: string; title?: string; aside?: ComponentChildren }) {
  const id = useId();
  return (
    <section class={`card ${className}`} {...(title !== undefined && { 'aria-labelledby': id })}>
      {title !== undefined && (
        <header class="card-head">
          <h2 id={id}>{title}</h2>
          {aside}
        </header>
      )}
      {children}
    </section>
  );
}

/** Shown in place of an empty list: what would be here, and how to add it. With `whole` it is the whole view. */
export function Empty({ title, whole = false, children }: Children & { title: string; whole?: boolean }) {
  return (
    <div class="empty">
      {whole ? (
        <h1>{title}</h1>
      ) : (
        <p>
          <b>{title}</b>
        </p>
      )}
      {children}
    </div>
  );
}

/** A placeholder for something that is being read; it appears only when that takes a while. */
export function Loading() {
  return (
    <p class="loading" role="status">
      Reading…
    </p>
  );
}

/** A window over the page: Escape and Close end it, and the focus returns to where it was. */
export function Dialog({
  title,
  onClose,
  wide = false,
  children,
}: Children & { title: string; onClose: () => void; wide?: boolean }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const shown = dialog.current;
    shown?.showModal();
    return () => shown?.close();
  }, []);
  // The browser reports the close later, and a view that was left must not act on it.
  const closed = () => dialog.current !== null && onClose();
  return (
    <dialog ref={dialog} class={wide ? 'wide-dialog' : ''} aria-labelledby={id} onClose={closed}>
      <header class="dialog-head">
        <h2 id={id}>{title}</h2>
        <Button kind="plain" class="small" onClick={() => dialog.current?.close()}>
          Close
        </Button>
      </header>
      {children}
    </dialog>
  );
}

/**
 * Asks before something that cannot be undone; the children say what will happen, `verb` is on the button that does it. It closes when
 * that is done; why it was refused is said in it.
 */
export function Confirm({
  title,
  verb,
  isHarmless = false,
  onDone,
  onClose,
  children,
}: Children & {
  title: string;
  verb: string;
  /** Nothing is lost by it. */
  isHarmless?: boolean;
  onDone: () => unknown;
  onClose: () => void;
}) {
  const { isBusy, error, run } = useWork();
  const confirmed = async () => {
    if (await run(async () => onDone())) onClose();
  };
  return (
    <Dialog title={title} onClose={onClose}>
      <div class="stack">
        {children}
        <Problem error={error} />
      </div>
      <div class="line end">
        <Button onClick={onClose}>Cancel</Button>
        <Button kind={isHarmless ? 'primary' : 'danger'} disabled={isBusy} onClick={confirmed}>
          {verb}
        </Button>
      </div>
    </Dialog>
  );
}

/** Copies a text; where the browser refuses, as over plain HTTP, it says so. */
export function CopyButton({ text, label = 'Copy' }: { text: string; label?: string }) {
  const [said, setSaid] = useState('');
  useEffect(() => setSaid(''), [text]);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      setSaid('Copied');
    } catch {
      setSaid('Select the text and copy it: the browser does not allow this here');
    }
  };
  return (
    <Button class="small" onClick={copy} aria-live="polite">
      {said || label}
    </Button>
  );
}

/** Links between the parts of a view. */
export function Tabs({
  label,
  tabs,
  current,
}: {
  label: string;
  tabs: readonly { id: string; text: string; href: string }[];
  current: string;
}) {
  const row = useRef<HTMLElement>(null);
  // In a narrow window the current tab may be out of sight.
  useLayoutEffect(() => {
    const one = row.current?.querySelector<HTMLElement>('[aria-current]');
    if (row.current && one) row.current.scrollLeft = one.offsetLeft - (row.current.clientWidth - one.offsetWidth) / 2;
  }, [current]);
  return (
    <nav class="tabs" aria-label={label} ref={row}>
      {tabs.map(({ id, text, href }) => (
        <a key={id} href={href} aria-current={id === current ? 'page' : undefined}>
          {text}
        </a>
      ))}
    </nav>
  );
}

export function Facts({ facts }: { facts: readonly (readonly [term: string, value: ComponentChildren])[] }) {
  return (
    <dl class="facts">
      {facts.map(([term, value]) => (
        <div key={term}>
          <dt>{term}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}
