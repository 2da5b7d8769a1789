/** An app's page inside a view, and the small choices beside it. */
import type { ComponentChildren } from 'preact';
import { useGateway } from '../gateway-state.tsx';
import { enterAddress } from '../session.ts';

/** The page of the app, live or of a draft. Its own element for each address: one more in a frame's history would be one more step back. */
export function PageFrame({ page }: { page: string }) {
  const { hasSessions } = useGateway();
  const address = hasSessions ? enterAddress(page) : page;
  return (
    <div class="chat-page card">
      <iframe key={address} src={address} title="The app's page" />
    </div>
  );
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
