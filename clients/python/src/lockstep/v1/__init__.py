"""Messages and stubs of the API, generated from proto/lockstep/v1: for calls that lockstep.Client lacks."""
