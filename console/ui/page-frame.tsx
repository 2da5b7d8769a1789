/** An app's page inside a view, and the small choices beside it. */
import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { SIGNED_IN } from '../gateway.ts';
import { useGateway } from '../gateway-state.tsx';
import { wayTo } from '../session.ts';
import { notifyProblem } from './notice.tsx';

/** What a page needs; it may not take the console's window to another address. */
const SANDBOX =
  'allow-scripts allow-same-origin allow-forms allow-downloads allow-modals allow-popups allow-popups-to-escape-sandbox';

/**
 * The page of the app, live or of a draft; an empty place while `page` is null. Each address has an element of its own: a frame that
 * goes to another address adds a step to the browser's history.
 */
export function PageFrame({ page }: { page: string | null }) {
  const address = useWay(page);
  const frame = useRef<HTMLIFrameElement>(null);
  useFocusKept(frame);
  return (
    <div class="chat-page card">
      {address !== null && <iframe key={address} ref={frame} src={address} sandbox={SANDBOX} title="The app's page" />}
    </div>
  );
}

/** The address that shows the page and gives its origin a workspace; null until it is known. */
function useWay(page: string | null): string | null {
  const { hasSessions } = useGateway();
  const [way, setWay] = useState<{ page: string; address: string } | null>(null);
  useEffect(() => {
    if (page === null || !hasSessions) return;
    let isWanted = true;
    const find = () => {
      wayTo(page).then((address) => {
        if (isWanted) setWay({ page, address });
        isWanted = false;
      }, notifyProblem);
    };
    // It may have ended since: what is shown by then stays.
    const again = () => {
      if (isWanted) find();
    };
    find();
    addEventListener(SIGNED_IN, again);
    return () => {
      isWanted = false;
      removeEventListener(SIGNED_IN, again);
    };
  }, [page, hasSessions]);
  if (!hasSessions) return page;
  return way !== null && way.page === page ? way.address : null;
}

/** Between the Tab key and the focus that it moves. */
const TAB_MS = 500;

/**
 * Many pages focus a field of theirs when they have loaded. Somebody who types beside one would go on typing into it, so the focus
 * goes back unless the person moved it: with the pointer over the page, or by the Tab key.
 */
function useFocusKept(frame: { current: HTMLIFrameElement | null }): void {
  useEffect(() => {
    let last: Element | null = document.activeElement;
    let tabbedAt = Number.NEGATIVE_INFINITY;
    const focused = ({ target }: FocusEvent): void => {
      if (target !== frame.current) last = target as Element;
    };
    const pressed = ({ key }: KeyboardEvent): void => {
      if (key === 'Tab') tabbedAt = performance.now();
    };
    const look = (): void => {
      const page = frame.current;
      if (page === null || document.activeElement !== page || !matchMedia('(hover: hover)').matches) return;
      if (page.matches(':hover') || performance.now() - tabbedAt < TAB_MS) return;
      if (last instanceof HTMLElement && last.isConnected && last !== document.body) last.focus();
      else page.blur();
    };
    // Which element has it now is known after the event only.
    const left = (): void => void setTimeout(look);
    document.addEventListener('focusin', focused);
    document.addEventListener('keydown', pressed, true);
    window.addEventListener('blur', left);
    return () => {
      document.removeEventListener('focusin', focused);
      document.removeEventListener('keydown', pressed, true);
      window.removeEventListener('blur', left);
    };
  }, []);
}

export function Choice({
  label,
  class: name,
  children,
}: {
  label: string;
  class: string;
  children: ComponentChildren;
}) {
  return (
    <fieldset class={`segments ${name}`} aria-label={label}>
      {children}
    </fieldset>
  );
}

export function Pressed({
  isPressed,
  onPress,
  children,
}: {
  isPressed: boolean;
  onPress: () => void;
  children: ComponentChildren;
}) {
  return (
    <button type="button" aria-pressed={isPressed} onClick={onPress}>
      {children}
    </button>
  );
}
