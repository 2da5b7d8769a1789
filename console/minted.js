/** Webhooks that a publication made: their addresses, and secrets that were minted, which no other answer has, to be copied. */
import { $, element, handOn, write } from '/svc/_console/view.js';

export class Minted {
  constructor() {
    $('chat-minted-done').onclick = () => {
      handOn($('chat-minted'), $('chat-log'));
      $('chat-minted').hidden = true;
      $('chat-minted-list').replaceChildren();
    };
  }

  /** They stay until the user says that they are kept, also beside another conversation. */
  show(webhooks) {
    if (webhooks.length === 0) return;
    const list = $('chat-minted-list');
    list.append(...webhooks.map(itemOf));
    const hasSecret = list.querySelector('[aria-label^="Secret of"]') !== null;
    write($('chat-minted-title'), hasSecret ? 'Keep the secret now: it is not shown again' : 'New webhooks');
    $('chat-minted').hidden = false;
    $('chat-minted').focus();
  }
}

function itemOf({ ownerApp, automationId, url, secret, secretName }) {
  const ref = `${ownerApp}/${automationId}`;
  const its = secret
    ? fieldOf('Secret', secret, ref)
    : element('span', 'aside', `Its sender needs the app's secret ${secretName}.`);
  return element('li', '', element('b', '', ref), fieldOf('Address', url, ref), its);
}

/** A text to copy, such as the address of a webhook; `ref` says whose, for those who do not see it. */
export function fieldOf(name, value, ref) {
  const field = element('input', '');
  field.value = value;
  field.readOnly = true;
  field.setAttribute('aria-label', `${name} of ${ref}`);
  field.addEventListener('focus', () => field.select());
  const button = element('button', 'small', 'Copy');
  button.type = 'button';
  button.setAttribute('aria-label', `Copy ${name.toLowerCase()} of ${ref}`);
  button.addEventListener('click', async () => {
    try {
      await navigator.clipboard.writeText(value);
      button.textContent = 'Copied';
    } catch {
      // Browsers refuse it to pages that came over plain HTTP from another machine.
      field.focus();
      button.textContent = 'Press Ctrl+C';
    }
  });
  return element('div', 'line', element('span', 'aside', name), field, button);
}
