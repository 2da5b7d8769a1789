/** Answers an account: without its password, and with how it can be signed in to. */
import type { Accounts } from '../../people/accounts.ts';
import { pictureOf } from '../../people/pictures.ts';
import type { Account } from '../../people/records.ts';

export function personRow(accounts: Accounts, account: Account) {
  const { id, name, email, isVouched: vouched, role, disabled, createdAt } = account;
  const lastSeenAt = accounts.people.lastSeenAt(account);
  const [picture, methods] = [pictureOf(account), accounts.methodsOf(account)];
  return { id, name, email, vouched, picture, role, disabled, createdAt, lastSeenAt, methods };
}
