/** The fields that the forms about people share. */
import { useState } from 'preact/hooks';
import { LIMITS } from '../../protocol/limits.ts';
import { Button, Field, Problem } from '../ui/parts.tsx';
import { useWork } from '../work.ts';

type NameFieldProps = {
  label: string;
  hint?: string | undefined;
  problem?: string | undefined;
  autocomplete?: 'name';
  value: string;
  onChange: (name: string) => void;
};

export function NameField({ label, hint, problem, autocomplete, value, onChange }: NameFieldProps) {
  return (
    <Field label={label} problem={problem} {...(hint !== undefined && { hint })}>
      <input
        {...(autocomplete && { autocomplete })}
        required
        maxLength={LIMITS.personNameChars}
        value={value}
        onInput={({ currentTarget }) => onChange(currentTarget.value)}
      />
    </Field>
  );
}

type NameFormProps = {
  label: string;
  hint?: string | undefined;
  name: string;
  verb: string;
  onNamed: (name: string) => Promise<void>;
};

/** Asks for another name. */
export function NameForm({ label, hint, name: before, verb, onNamed }: NameFormProps) {
  const [name, setName] = useState(before);
  const { isBusy, error, run } = useWork();
  const submit = (event: Event) => {
    event.preventDefault();
    void run(() => onNamed(name.trim()));
  };
  return (
    <form class="stack" onSubmit={submit}>
      <NameField label={label} hint={hint} value={name} onChange={setName} />
      <Problem error={error} />
      <div class="line">
        <Button type="submit" disabled={isBusy || name.trim() === before}>
          {verb}
        </Button>
      </div>
    </form>
  );
}

type PasswordProps = {
  label: string;
  problem?: string | undefined;
  value: string;
  onChange: (password: string) => void;
};

/** For a password that somebody has. */
export function PasswordField({ label, problem, value, onChange }: PasswordProps) {
  return (
    <Field label={label} problem={problem}>
      <input
        type="password"
        autocomplete="current-password"
        required
        value={value}
        onInput={({ currentTarget }) => onChange(currentTarget.value)}
      />
    </Field>
  );
}

/** For a password that somebody chooses. `aside` completes what is said of it. */
export function NewPasswordField({
  aside = '',
  isOptional = false,
  label,
  problem,
  value,
  onChange,
}: PasswordProps & { aside?: string; isOptional?: boolean }) {
  return (
    <Field label={label} hint={`At least ${LIMITS.passwordChars} characters.${aside}`} problem={problem}>
      <input
        type="password"
        autocomplete="new-password"
        required={!isOptional}
        minLength={LIMITS.passwordChars}
        maxLength={LIMITS.passwordCharsMax}
        value={value}
        onInput={({ currentTarget }) => onChange(currentTarget.value)}
      />
    </Field>
  );
}

/** Tells the browser whose password it is that the fields beside it ask for. */
export function HiddenName({ email }: { email: string | null }) {
  return (
    <input
      class="unseen"
      type="text"
      autocomplete="username"
      value={email ?? ''}
      readOnly
      tabIndex={-1}
      aria-hidden="true"
    />
  );
}
