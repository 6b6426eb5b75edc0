// Finding a payment.

import { useState } from 'preact/hooks';
import { address, go } from '../router';
import { texts } from '../texts';
import { Field, Title } from '../ui';

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const ULID = /^[0-7][0-9A-HJKMNP-TV-Z]{25}$/;

export function Payments() {
  return (
    <>
      <Title text={texts.payments.title} />
      <FindPayment />
    </>
  );
}

/** A field for the id of a transfer, and a button that opens its page. */
export function FindPayment() {
  const [id, setId] = useState('');
  const [error, setError] = useState<string>();
  const submit = (event: Event) => {
    event.preventDefault();
    const text = id.trim();
    const found = [text.toLowerCase(), text.toUpperCase()].find(
      (one) => UUID.test(one) || ULID.test(one),
    );
    setError(found === undefined ? texts.payments.invalid : undefined);
    if (found !== undefined) go(address(['transfers', found]));
  };
  return (
    <form class="inline" onSubmit={submit} noValidate role="search" aria-label={texts.payments.find}>
      <Field
        label={texts.payments.id}
        hint={texts.payments.idHint}
        value={id}
        onValue={setId}
        error={error}
        autocomplete="off"
      />
      <button class="primary">{texts.payments.show}</button>
    </form>
  );
}
