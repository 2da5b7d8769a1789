/** Where webhooks come in (specification, "Webhook route"; decisions, section 6). */
import { WEBHOOK_ROUTE_PREFIX } from '../../protocol/automation.ts';
import type { Webhooks } from '../automations/webhooks/webhooks.ts';
import type { Route } from '../http/router.ts';

export function hookRoutes(webhooks: Webhooks): Route[] {
  return [
    {
      method: 'POST',
      // Everything below the prefix, undecoded: what is no slug is refused by the webhook's own rules, without a token.
      path: `${WEBHOOK_ROUTE_PREFIX}*`,
      needs: 'anyone',
      summary: 'Fire the automation whose webhook has this slug.',
      handle: (exchange, { '*': rest = '' }) => webhooks.receive(exchange, rest.slice(1)),
    },
  ];
}
