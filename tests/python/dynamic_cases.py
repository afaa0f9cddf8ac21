OWN, OWN_REFUSED, SMOOTH = [], {}, []
