/** Webhooks that a publication minted: their addresses and secrets, which no other answer has, to be copied. */
import { $, element, handOn } from '/svc/_console/view.js';

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
    $('chat-minted-list').append(...webhooks.map(itemOf));
    $('chat-minted').hidden = false;
    $('chat-minted').focus();
  }
}

function itemOf({ ownerApp, automationId, url, secret }) {
  const ref = `${ownerApp}/${automationId}`;
  return element('li', '', element('b', '', ref), fieldOf('Address', url, ref), fieldOf('Secret', secret, ref));
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
