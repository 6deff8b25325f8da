import { session } from "../api.js";
import { html, useState } from "../html.js";
import { Field, Problem } from "../ui.js";

export function SignIn({ onDone }) {
  const [error, setError] = useState(null);
  const [busy, setBusy] = useState(false);
  const signIn = async (event) => {
    event.preventDefault();
    const given = Object.fromEntries(new FormData(event.target));
    setBusy(true);
    try {
      await session.signIn(given);
      event.target.reset();
      await onDone();
    } catch (failure) {
      setError(failure);
    }
    setBusy(false);
  };
  return html`<main class="sign-in"><div class="card">
    <h1>Sign in to Penstock</h1>
    <p class="soft">With an access key of this server. <code>penstock user create NAME --policy administrator</code> makes one.
      The browser keeps neither key nor secret; the session ends after an hour.</p>
    <form onSubmit=${signIn}>
      <${Field} label="Access key"><input name="access_key" required autocomplete="username" autofocus spellcheck=${false} /><//>
      <${Field} label="Secret key"><input name="secret_key" type="password" required autocomplete="current-password" /><//>
      <${Field} label="Session token" hint="For temporary keys only."><input name="session_token" spellcheck=${false} autocomplete="off" /><//>
      <${Problem} error=${error} />
      <footer class="row"><button class="primary" disabled=${busy}>Sign in</button></footer>
    </form>
  </div></main>`;
}
