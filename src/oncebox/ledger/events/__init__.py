"""Events: one numbered log per tenant, recorded in the commit that makes them true."""
