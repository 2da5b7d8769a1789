/** The error for sources that cannot be published: the first finding with its place, and all of them in `issues`. */
import { type ErrorCode, type InputIssue, SvcError } from '../errors.ts';
import { LIMITS } from '../limits.ts';

/** With these findings, at least one, in files of the app; it lists up to `LIMITS.inputIssues`. */
export function invalidSources(code: ErrorCode, issues: InputIssue[]): SvcError {
  const [{ path, line, column, keyword, message }] = issues as [InputIssue];
  const shown = issues.slice(0, LIMITS.inputIssues);
  const others = issues.length - 1;
  const listed = issues.length > shown.length ? `; issues lists the first ${shown.length}` : '';
  const more =
    others === 0 ? '' : ` There ${others === 1 ? 'is 1 more finding' : `are ${others} more findings`}${listed}.`;
  const place = line === undefined ? path : `${path}:${line}:${column}`;
  return new SvcError(code, `${place}: ${message.replace(/\.$/, '')} (${keyword}).${more}`, { path, issues: shown });
}
